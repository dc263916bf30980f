"""A small client that speaks to the real driver over pipes, as the host does."""

from __future__ import annotations

import itertools
import json
import queue
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cellwright.kernels.deno import find_deno
from tests.waiting import LIMIT_S

DRIVER = Path(__file__).parents[3] / "src" / "cellwright_kernel" / "deno" / "driver.mjs"
TOKEN = "5ec2e7"  # noqa: S105  # of this very process
LISTENING = re.compile(r"Debugger listening on (ws://\S+)")


@dataclass
class Ran:
    """What came of one request."""

    messages: list[dict[str, Any]]
    reply: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    def contents(self, kind: str) -> list[dict[str, Any]]:
        return [message["content"] for message in self.messages if message["kind"] == kind]

    @property
    def kinds(self) -> list[str]:
        return [message["kind"] for message in self.messages]

    def text(self, name: str) -> str:
        return "".join(each["text"] for each in self.contents("stream") if each["name"] == name)

    @property
    def stdout(self) -> str:
        return self.text("stdout")

    @property
    def stderr(self) -> str:
        return self.text("stderr")

    @property
    def data(self) -> dict[str, Any]:
        """The forms of the result."""
        (result,) = self.contents("execute_result")
        data: dict[str, Any] = result["data"]
        return data

    @property
    def result(self) -> str | None:
        results = self.contents("execute_result")
        return results[0]["data"]["text/plain"] if results else None

    @property
    def displays(self) -> list[dict[str, Any]]:
        return [each["data"] for each in self.contents("display_data")]

    @property
    def traceback(self) -> str:
        return "\n".join(self.reply.get("traceback", []))


class Driver:
    """One process of the driver."""

    def __init__(
        self,
        cwd: Path,
        deno_dir: Path,
        *,
        max_bytes: int = 200_000,
        max_messages: int = 500,
        flags: tuple[str, ...] = (),
    ) -> None:
        command = [
            str(find_deno()), "run", "--no-prompt", "--no-config", "--no-lock", "--inspect=127.0.0.1:0",
            "--inspect-publish-uid=stderr", *(flags or ("--allow-all",)), str(DRIVER),
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd,
            env={"NO_COLOR": "1", "PATH": "/usr/bin:/bin", "DENO_DIR": str(deno_dir), "HOME": str(cwd)},
        )  # fmt: skip
        self._ids = map("m{}".format, itertools.count(1))
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.last_words: list[str] = []
        self._address: queue.Queue[str] = queue.Queue()
        self._threads = [threading.Thread(target=read) for read in (self._read_messages, self._read_words)]
        for thread in self._threads:
            thread.start()
        address = self._address.get(timeout=LIMIT_S)
        limits = {"max_bytes": max_bytes, "max_messages": max_messages}
        self._write({"token": TOKEN, **limits, "cwd": str(cwd), "inspector": address})

    def _read_messages(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.decode())
        self._lines.put(None)

    def _read_words(self) -> None:
        assert self.process.stderr is not None
        for raw in self.process.stderr:
            line = raw.decode().rstrip("\n")
            found = LISTENING.search(line)
            if found:
                self._address.put(found[1])
            self.last_words.append(line)

    def _write(self, line: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()

    def send(self, kind: str, content: dict[str, Any], channel: str = "shell") -> str:
        request = next(self._ids)
        self._write({"channel": channel, "kind": kind, "id": request, "content": content})
        return request

    def receive(self) -> dict[str, Any]:
        line = self._lines.get(timeout=LIMIT_S)
        if line is None:
            raise EOFError("\n".join(self.last_words))
        assert line.startswith(TOKEN), line
        message: dict[str, Any] = json.loads(line.removeprefix(TOKEN))
        return message

    def wait_for(self, accept: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """All messages up to the one that is waited for."""
        seen = []
        while not seen or not accept(seen[-1]):
            seen.append(self.receive())
        return seen

    def finish(self, request: str) -> Ran:
        """What came of a request, which must have begun before any other."""

        def is_idle(message: dict[str, Any]) -> bool:
            return message["parent"] == request and message["content"] == {"execution_state": "idle"}

        ran = Ran(self.wait_for(is_idle))
        (reply,) = (each for each in ran.messages if each["channel"] != "iopub" and each["parent"] == request)
        ran.reply, ran.metadata = reply["content"], reply["metadata"].get("cellwright", {})
        return ran

    def ask(self, kind: str, **content: Any) -> dict[str, Any]:
        return self.finish(self.send(kind, content)).reply

    def run(self, code: str, **content: Any) -> Ran:
        return self.finish(self.send("execute_request", {"code": code, **content}))

    def value(self, code: str, **content: Any) -> str | None:
        """The result of a cell that must end well, as text."""
        ran = self.run(code, **content)
        assert ran.reply["status"] == "ok", ran.traceback
        return ran.result

    def start(self, code: str) -> str:
        """Begin a cell, and wait until it says so."""
        request = self.send("execute_request", {"code": code})
        self.wait_for(lambda message: message["kind"] == "stream")
        return request

    def interrupt(self, request: str) -> Ran:
        self.send("interrupt_request", {}, "control")
        return self.finish(request)

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join()
        self.process.stdin.close()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()


StartDriver = Callable[..., Driver]


@pytest.fixture(scope="session")
def deno_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Deno's cache: the first process compiles the driver for all others, as the host's does."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory, deno_dir: Path) -> Iterator[Driver]:
    """One process for the tests of a module that leave nothing behind but names of their own."""
    driver = Driver(tmp_path_factory.mktemp("deno"), deno_dir)
    yield driver
    driver.end()


@pytest.fixture
def start_driver(tmp_path: Path, deno_dir: Path) -> Iterator[StartDriver]:
    started: list[Driver] = []

    def start(**options: Any) -> Driver:
        started.append(Driver(tmp_path, deno_dir, **options))
        return started[-1]

    yield start
    for driver in started:
        driver.end()


@pytest.fixture
def own_driver(start_driver: StartDriver) -> Driver:
    return start_driver()
