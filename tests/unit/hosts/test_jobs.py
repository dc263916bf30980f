"""Every race of one kernel's queue, without a kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from cellwright.hosts import _cell_queue
from cellwright.hosts.protocol import Run

OK = {"status": "ok", "execution_count": 1}
FAILED = {"status": "error", "ename": "ValueError", "evalue": "no"}


@dataclass
class Kernel:
    """Feeds happenings and keeps what was decided."""

    queue: _cell_queue.Queue = field(default_factory=_cell_queue.Queue)
    sent: list[str] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)
    errors: dict[str, tuple[object, object]] = field(default_factory=dict)
    interrupts: int = 0
    kills: int = 0
    takes_up: bool = True

    def happen(self, *happenings: _cell_queue.QueueEvent) -> Kernel:
        for happening in happenings:
            self.queue, effects = _cell_queue.advance(self.queue, happening)
            for effect in effects:
                match effect:
                    case _cell_queue.SendExecute(job):
                        self.sent.append(job.execution_id)
                        if self.takes_up:
                            self.happen(_cell_queue.Began(job.execution_id))
                    case _cell_queue.End(execution_id, state, reply):
                        assert execution_id not in self.ended, "an execution ends once"
                        self.ended[execution_id] = state
                        if reply is not None and reply["status"] == "error":
                            self.errors[execution_id] = reply["ename"], reply["evalue"]
                    case _cell_queue.SendInterrupt():
                        self.interrupts += 1
                    case _cell_queue.Kill():
                        self.kills += 1
                    case _cell_queue.StartTimer():
                        pass
        return self

    def finish(self, execution_id: str, reply: dict[str, object] = OK) -> Kernel:
        return self.happen(_cell_queue.Replied(execution_id, reply), _cell_queue.WentIdle(execution_id))


def run(name: str, **options: object) -> _cell_queue.Submitted:
    return _cell_queue.Submitted(Run(name, "1", 30, **options))  # type: ignore[arg-type]


def test_jobs_run_one_after_another_in_the_order_they_came() -> None:
    kernel = Kernel().happen(run("a"), run("b"), run("c"))
    assert kernel.sent == ["a"]
    kernel.finish("a").finish("b")
    assert kernel.sent == ["a", "b", "c"]
    assert kernel.ended == {"a": "ok", "b": "ok"}


def test_a_job_ends_only_when_both_its_reply_and_its_idle_are_here() -> None:
    for first, second in [
        (_cell_queue.Replied("a", OK), _cell_queue.WentIdle("a")),
        (_cell_queue.WentIdle("a"), _cell_queue.Replied("a", OK)),
    ]:
        kernel = Kernel().happen(run("a"), first)
        assert kernel.ended == {}
        assert kernel.happen(second).ended == {"a": "ok"}


def test_a_job_whose_files_are_being_saved_ends_with_that_however_long_it_takes() -> None:
    for first, second in [
        (_cell_queue.Replied("a", OK), _cell_queue.Settles("a")),
        (_cell_queue.Settles("a"), _cell_queue.Replied("a", OK)),
    ]:
        kernel = Kernel().happen(run("a"), first, second)
        kernel.happen(
            _cell_queue.Expired("idle", "a"),
            _cell_queue.Expired("cell", "a"),
            _cell_queue.Expired("grace", "a"),
        )
        assert (kernel.ended, kernel.interrupts, kernel.kills) == ({}, 0, 0)
        assert kernel.happen(_cell_queue.WentIdle("a")).ended == {"a": "ok"}


def test_an_idle_that_never_comes_does_not_hang_the_queue() -> None:
    kernel = Kernel().happen(
        run("a"), run("b"), _cell_queue.Replied("a", OK), _cell_queue.Expired("idle", "a")
    )
    assert kernel.ended == {"a": "ok"}
    assert kernel.sent == ["a", "b"]


def test_a_reply_that_never_comes_is_an_error() -> None:
    kernel = Kernel().happen(run("a"), _cell_queue.WentIdle("a"), _cell_queue.Expired("idle", "a"))
    assert kernel.ended == {"a": "error"}


def test_a_time_out_interrupts_and_is_told_as_a_time_out() -> None:
    kernel = Kernel().happen(run("a"), _cell_queue.Expired("cell", "a"))
    assert (kernel.interrupts, kernel.ended) == (1, {})
    assert kernel.finish("a", FAILED).ended == {"a": "timeout"}


def test_code_that_catches_the_interrupt_still_timed_out() -> None:
    assert Kernel().happen(run("a"), _cell_queue.Expired("cell", "a")).finish("a", OK).ended == {
        "a": "timeout"
    }


def test_code_that_ignores_the_interrupt_is_killed_once_and_its_end_is_the_time_out() -> None:
    kernel = Kernel().happen(
        run("a"),
        run("b"),
        _cell_queue.Expired("cell", "a"),
        _cell_queue.Expired("grace", "a"),
        _cell_queue.Expired("grace", "a"),
    )
    assert kernel.kills == 1
    assert kernel.happen(_cell_queue.Died("killed")).ended == {"a": "timeout", "b": "interrupted"}


def test_a_time_out_is_a_timeout_error_however_the_code_ended() -> None:
    over = (run("a"), _cell_queue.Expired("cell", "a"))
    told = {"a": ("TimeoutError", "the cell ran longer than 30 s")}
    for ename in ("KeyboardInterrupt", "InterruptException", "interrupt"):
        reply = {"status": "error", "ename": ename, "evalue": "", "traceback": []}
        assert Kernel().happen(*over).finish("a", reply).errors == told
    assert Kernel().happen(*over).finish("a", OK).errors == told
    killed = Kernel().happen(*over, _cell_queue.Expired("grace", "a"), _cell_queue.Died("killed"))
    assert killed.errors == told
    assert Kernel().happen(*over).finish("a", FAILED).errors == {"a": ("ValueError", "no")}
    stopped = {"status": "error", "ename": "KeyboardInterrupt", "evalue": ""}
    assert Kernel().happen(run("a"), _cell_queue.Cancelled("a")).finish("a", stopped).errors == {
        "a": ("KeyboardInterrupt", "")
    }


def test_a_second_stop_does_not_interrupt_the_clean_up_of_the_first() -> None:
    kernel = Kernel().happen(
        run("a"), _cell_queue.Cancelled("a"), _cell_queue.Expired("cell", "a"), _cell_queue.Interrupted()
    )
    assert kernel.interrupts == 1
    assert kernel.finish("a", FAILED).ended == {"a": "interrupted"}


def test_an_interrupt_waits_until_the_kernel_has_taken_the_job_up() -> None:
    kernel = Kernel(takes_up=False).happen(run("a"), _cell_queue.Cancelled("a"))
    assert kernel.interrupts == 0
    assert kernel.happen(_cell_queue.Began("a")).interrupts == 1
    assert kernel.finish("a", FAILED).ended == {"a": "interrupted"}


def test_a_kernel_that_never_takes_the_job_up_is_killed_when_its_grace_is_over() -> None:
    kernel = Kernel(takes_up=False).happen(
        run("a"), _cell_queue.Cancelled("a"), _cell_queue.Expired("grace", "a")
    )
    assert kernel.kills == 1


def test_an_idle_kernel_is_not_killed_for_want_of_a_reply() -> None:
    kernel = Kernel().happen(
        run("a"), _cell_queue.Cancelled("a"), _cell_queue.WentIdle("a"), _cell_queue.Expired("grace", "a")
    )
    assert kernel.kills == 0
    assert kernel.happen(_cell_queue.Expired("idle", "a")).ended == {"a": "interrupted"}


def test_cancelling_a_waiting_job_touches_nothing_else() -> None:
    kernel = Kernel().happen(run("a"), run("b"), run("c"), _cell_queue.Cancelled("b"))
    assert (kernel.ended, kernel.interrupts) == ({"b": "interrupted"}, 0)
    kernel.finish("a")
    assert kernel.sent == ["a", "c"]


def test_an_interrupt_stops_what_runs_and_drops_what_waits() -> None:
    kernel = Kernel().happen(run("a"), run("b"), run("c"), _cell_queue.Interrupted())
    assert kernel.ended == {"b": "interrupted", "c": "interrupted"}
    assert kernel.finish("a", FAILED).ended["a"] == "interrupted"


def test_a_failure_drops_the_rest_of_its_group_only() -> None:
    kernel = Kernel().happen(run("a", group="g"), run("b", group="g"), run("other"))
    kernel.finish("a", FAILED)
    assert kernel.ended == {"a": "error", "b": "interrupted"}
    assert kernel.sent == ["a", "other"]


def test_a_failure_that_is_allowed_drops_nothing() -> None:
    kernel = Kernel().happen(run("a", group="g", allow_error=True), run("b", group="g"))
    assert kernel.finish("a", FAILED).finish("b").ended == {"a": "error", "b": "ok"}


def test_a_crash_ends_what_ran_and_what_waited() -> None:
    kernel = Kernel().happen(run("a"), run("b"), _cell_queue.Died("segmentation fault"))
    assert kernel.ended == {"a": "died", "b": "interrupted"}
    assert kernel.queue == _cell_queue.Queue()


def test_short_memory_interrupts_the_running_job() -> None:
    kernel = Kernel().happen(run("a"), _cell_queue.MemoryShort())
    assert kernel.interrupts == 1
    assert kernel.finish("a", FAILED).ended == {"a": "interrupted"}


@given(st.sampled_from(["cell", "grace", "idle"]), st.booleans())
def test_what_comes_too_late_changes_nothing(timer: _cell_queue.Timer, replied: bool) -> None:
    kernel = Kernel().happen(run("a")).finish("a")
    late = _cell_queue.Replied("a", OK) if replied else _cell_queue.Expired(timer, "a")
    assert kernel.happen(late, _cell_queue.WentIdle("a"), _cell_queue.Cancelled("a")).ended == {"a": "ok"}


class AnyHistory(RuleBasedStateMachine):
    """Whatever happens in whatever order: order kept, every job ends exactly once, nothing runs beside another."""

    names = Bundle("names")

    def __init__(self) -> None:
        super().__init__()
        self.kernel = Kernel()
        self.submitted: list[str] = []

    @rule(target=names, group=st.sampled_from([None, "g"]), allow=st.booleans())
    def submit(self, group: str | None, allow: bool) -> str:
        name = f"x{len(self.submitted)}"
        self.submitted.append(name)
        self.kernel.happen(run(name, group=group, allow_error=allow))
        return name

    @rule(name=names, ok=st.booleans())
    def reply(self, name: str, ok: bool) -> None:
        if name in self.kernel.sent:
            self.kernel.happen(_cell_queue.Replied(name, OK if ok else FAILED))

    @rule(name=names)
    def settle(self, name: str) -> None:
        if name in self.kernel.sent:
            self.kernel.happen(_cell_queue.Settles(name))

    @rule(name=names)
    def idle(self, name: str) -> None:
        if name in self.kernel.sent:
            self.kernel.happen(_cell_queue.WentIdle(name))

    @rule(name=names, timer=st.sampled_from(["cell", "grace", "idle"]))
    def expire(self, name: str, timer: _cell_queue.Timer) -> None:
        self.kernel.happen(_cell_queue.Expired(timer, name))

    @rule(name=names)
    def cancel(self, name: str) -> None:
        self.kernel.happen(_cell_queue.Cancelled(name))

    @rule()
    def interrupt(self) -> None:
        self.kernel.happen(_cell_queue.Interrupted())

    @rule()
    def die(self) -> None:
        self.kernel.happen(_cell_queue.Died("it crashed"))

    @invariant()
    def every_job_is_in_exactly_one_place(self) -> None:
        queue = self.kernel.queue
        running = [queue.running.job.execution_id] if queue.running else []
        waiting = [job.execution_id for job in queue.waiting]
        assert sorted([*running, *waiting, *self.kernel.ended]) == sorted(self.submitted)

    @invariant()
    def jobs_are_sent_in_order(self) -> None:
        order = [self.submitted.index(name) for name in self.kernel.sent]
        assert order == sorted(order)

    @invariant()
    def the_kernel_never_stands_still_with_work_waiting(self) -> None:
        assert self.kernel.queue.running or not self.kernel.queue.waiting


TestAnyHistory = AnyHistory.TestCase
