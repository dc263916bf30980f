"""Kills processes at random moments while clients work, and counts what was lost.

``python -m tests.support.daemon.chaos kills --of daemon --times 100``: a client adds cells and runs them; another
cancels its calls within milliseconds and asks for the history, all the time; a process of the chosen kind is killed,
again and again. Every acknowledged cell must be there once, and nobody may be disconnected but by the death of the
daemon or of the client itself.

``python -m tests.support.daemon.chaos load --seconds 300``: a hundred sessions and twenty clients that add and run
cells and take checkpoints; afterwards what daemon and host hold, what they hold once all sessions are deleted, and
what the journal has given back by then.
"""

from __future__ import annotations

import argparse
import itertools
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.kernel.engine.conftest import host_process
from tests.system.daemon.conftest import Place, Pump, place_in

MB = 1e6
KINDS = ("client", "daemon", "host", "kernel")
LOUD = "print('x' * 200_000)"


def say(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Worker:
    """A client that comes again whenever it is cut off, and remembers what was acknowledged to it."""

    def __init__(self, place: Place, name: str) -> None:
        self._place = place
        self.cut_off = 0
        self.acknowledged: list[str] = []
        self._pump = self._new_pump()
        self.session: str = self._pump.call("notebook_create", name=name)["session_id"]
        self._numbers = itertools.count()
        self._name = name

    def _new_pump(self) -> Pump:
        pump = self._place.pump()
        pump.initialize()
        return pump

    @property
    def pid(self) -> int:
        return self._pump.process.pid

    def again(self) -> None:
        """Connect anew, after the process in between has gone."""
        with suppress(psutil.NoSuchProcess):
            psutil.Process(self.pid).kill()
        self._pump = self._new_pump()

    def call(self, tool: str, **arguments: object) -> dict[str, object]:
        return self._pump.call(tool, session_id=self.session, **arguments)

    def work(self) -> None:
        """Add a cell and run it; what was acknowledged is remembered."""
        mark = f"mark_{self._name}_{next(self._numbers)}"
        self.call("cell_add", content=f"{mark} = 1")
        self.acknowledged.append(mark)
        self._pump.answer(self._pump.begin("scratch_run", session_id=self.session, code="x = 1"))

    def cancel_and_look(self) -> None:
        """Ask for a change, think better of it at once, and ask for the history."""
        ident = self._pump.begin("cell_add", session_id=self.session, content="# cancelled")
        time.sleep(random.uniform(0, 0.003))
        self._pump.send({"method": "notifications/cancelled", "params": {"requestId": ident}})
        self._pump.answer(self._pump.begin("execution_list", session_id=self.session))

    def marks(self) -> Counter[str]:
        """How often each mark is in the notebook."""
        path = self._place.root / "work" / f"{self._name}.json"
        self._pump.answer(self._pump.begin("notebook_export", session_id=self.session, path=path.name))
        notebook = path.read_text(encoding="utf-8")
        return Counter(mark for mark in self.acknowledged for _ in range(notebook.count(f"{mark} = 1")))


@contextmanager
def cancelling(worker: Worker, expected: threading.Event) -> Iterator[None]:
    """A client that cancels beside, until the end; disconnections are counted unless they are expected."""
    over = threading.Event()

    def go_on() -> None:
        while not over.is_set():
            try:
                worker.cancel_and_look()
            except AssertionError:
                worker.cut_off += not expected.is_set() and not over.is_set()
                with suppress(AssertionError):
                    worker.again()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)


def victims(place: Place, worker: Worker) -> dict[str, Callable[[], int | None]]:
    def host() -> int | None:
        found = host_process(place.storage)
        return found.pid if found is not None else None

    def kernel() -> int | None:
        found = host()
        below = psutil.Process(found).children(recursive=True) if found is not None else []
        return random.choice(below).pid if below else None

    return {
        "client": lambda: worker.pid,
        "daemon": lambda: place.daemon().pid,
        "host": host,
        "kernel": kernel,
    }


@dataclass(frozen=True)
class Toll:
    """What a run of kills came to."""

    killed: int
    acknowledged: int
    lost: int
    doubled: int
    disconnected: int


def kills(of: str, times: int) -> Toll:
    """Kill one kind of process again and again while clients work."""
    with (
        tempfile.TemporaryDirectory(prefix="cwc-") as root,
        place_in(Path(root), CELLWRIGHT_MAX_CELLS="100000") as place,
    ):
        worker, canceller = Worker(place, "worker"), Worker(place, "canceller")
        expected = threading.Event()
        if of == "daemon":  # its death is everybody's
            expected.set()
        done = unexpected = 0
        with cancelling(canceller, expected):
            while done < times:
                delay = random.uniform(0, 2 if of == "daemon" else 0.6)
                timer = threading.Timer(delay, _kill, [victims(place, worker)[of]])
                timer.start()
                try:
                    while timer.is_alive():
                        worker.work()
                except AssertionError as error:
                    if of not in ("daemon", "client"):
                        unexpected += 1
                        say(f"disconnected: {error}")
                    timer.join()
                    worker.again()
                timer.join()
                done += 1
        counts = worker.marks()
    return Toll(
        killed=done,
        acknowledged=len(worker.acknowledged),
        lost=sum(not counts[mark] for mark in worker.acknowledged),
        doubled=sum(count > 1 for count in counts.values()),
        disconnected=unexpected + canceller.cut_off,
    )


def _kill(find: Callable[[], int | None]) -> None:
    with suppress(psutil.NoSuchProcess, KeyError, OSError):
        if (pid := find()) is not None:
            psutil.Process(pid).send_signal(signal.SIGKILL)


def load(seconds: float, sessions: int, clients: int) -> None:
    variables = {"CELLWRIGHT_MAX_SESSIONS": "500"}
    with tempfile.TemporaryDirectory(prefix="cwl-") as root, place_in(Path(root), **variables) as place:
        workers = [Worker(place, f"client{number}") for number in range(clients)]
        mine = {worker: [worker.session] for worker in workers}
        for number in range(sessions - clients):
            worker = workers[number % clients]
            mine[worker].append(worker._pump.call("notebook_create", name=f"session{number}")["session_id"])
        say(_held(place, "at the beginning"))
        counts: Counter[str] = Counter()
        threads = [
            threading.Thread(
                target=_keep_busy, args=[worker, mine[worker], time.monotonic() + seconds, counts]
            )
            for worker in workers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        say(dict(counts))
        say(_held(place, "at the end"))
        for worker in workers:
            for session in mine[worker]:
                worker._pump.call("notebook_delete", session_id=session, remove_file=True)
        say(_held(place, "all deleted"))
        _await_vacuum(place)
        say(_held(place, "after the vacuum"))


def _await_vacuum(place: Place, limit_s: float = 600, quiet_s: int = 10) -> None:
    """Wait until the journal has given nothing back for a while."""
    until, sizes = time.monotonic() + limit_s, [_journal_bytes(place)]
    while time.monotonic() < until and len(set(sizes[-quiet_s:])) + (len(sizes) < quiet_s) > 1:
        time.sleep(1)
        sizes.append(_journal_bytes(place))


def _keep_busy(worker: Worker, sessions: list[str], until: float, counts: Counter[str]) -> None:
    pump = worker._pump
    for number in itertools.count():
        if time.monotonic() > until:
            return
        session = sessions[number % len(sessions)]
        code = LOUD if number % 10 == 0 else f"x = {number}"
        pump.answer(pump.begin("scratch_run", session_id=session, code=code))
        counts["executions"] += 1
        if number % 5 == 0:
            answer = pump.answer(pump.begin("checkpoint_create", session_id=session))["result"]
            counts["checkpoints refused" if answer.get("isError") else "checkpoints"] += 1


def _held(place: Place, when: str) -> str:
    host = host_process(place.storage)
    daemon_mb = place.daemon().memory_info().rss / MB
    host_mb = host.memory_info().rss / MB if host is not None else 0
    journal_mb = _journal_bytes(place) / MB
    return f"{when}: daemon {daemon_mb:.0f} MB, host {host_mb:.0f} MB, journal {journal_mb:.1f} MB"


def _journal_bytes(place: Place) -> int:
    return sum(path.stat().st_size for path in place.storage.glob("*.db*"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = parser.add_subparsers(dest="what", required=True)
    killing = kinds.add_parser("kills")
    killing.add_argument("--of", choices=KINDS, required=True)
    killing.add_argument("--times", type=int, default=100)
    loading = kinds.add_parser("load")
    loading.add_argument("--seconds", type=float, default=300)
    loading.add_argument("--sessions", type=int, default=100)
    loading.add_argument("--clients", type=int, default=20)
    options = vars(parser.parse_args())
    if options.pop("what") == "kills":
        say(f"{options['of']}: {kills(**options)}")
    else:
        load(**options)


if __name__ == "__main__":
    main()
