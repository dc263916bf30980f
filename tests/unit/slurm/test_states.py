"""What SLURM's words mean for an allocation, and for people."""

from __future__ import annotations

import pytest

from cellwright.slurm._states import (
    CAUSES,
    AllocationState,
    Ended,
    Ending,
    JobRow,
    Pending,
    Running,
    Submitting,
    Waiting,
    duration,
    position_of,
    state_of,
    state_text,
)

NOW = 1_800_000_000.0
# Every state of SLURM's own list, base states and flags, with what it is for us.
MEANINGS = {
    "BOOT_FAIL": "node_failed",
    "CANCELLED": "cancelled",
    "CANCELLED by 1000": "cancelled",
    "CANCELLED+": "cancelled",
    "COMPLETED": "completed",
    "COMPLETING": Ending,
    "CONFIGURING": Running,
    "DEADLINE": "time_limit",
    "FAILED": "failed",
    "LAUNCH_FAILED": "node_failed",
    "NODE_FAIL": "node_failed",
    "OUT_OF_MEMORY": "out_of_memory",
    "PENDING": Pending,
    "PREEMPTED": "preempted",
    "RECONFIG_FAIL": "node_failed",
    "REQUEUED": Pending,
    "REQUEUE_FED": Pending,
    "REQUEUE_HOLD": Pending,
    "RESIZING": Running,
    "RESV_DEL_HOLD": Pending,
    "REVOKED": "cancelled",
    "RUNNING": Running,
    "SIGNALING": Running,
    "SPECIAL_EXIT": Pending,
    "STAGE_OUT": Ending,
    "STOPPED": Running,
    "SUSPENDED": Running,
    "TIMEOUT": "time_limit",
}


@pytest.mark.parametrize(("word", "meaning"), MEANINGS.items())
def test_every_state_of_slurm_means_something(word: str, meaning: object) -> None:
    state = state_of(JobRow(1, word, node="n1"))
    assert (state.cause if isinstance(state, Ended) else type(state)) == meaning


def test_a_word_of_a_later_slurm_never_ends_an_allocation() -> None:
    assert isinstance(state_of(JobRow(1, "TELEPORTING", node="n1")), Running)
    assert isinstance(state_of(JobRow(1, "TELEPORTING")), Pending)


def test_job_on_its_way_to_a_node_waits_until_it_has_one() -> None:
    assert isinstance(state_of(JobRow(1, "CONFIGURING")), Pending)


def test_stopped_processes_are_told_from_ended_ones() -> None:
    state = state_of(JobRow(1, "SUSPENDED", node="n1"))
    assert isinstance(state, Running)
    assert state.suspended
    assert state_text(state, now=NOW).text == "suspended by SLURM on n1; it goes on by itself"


# Places in the queue -------------------------------------------------------------------------------------------------


def waits(job: str, priority: int, partition: str = "main", reason: str = "Priority") -> Waiting:
    return Waiting(job, frozenset(partition.split(",")), priority, reason)


ME = JobRow(50, "PENDING", partition="main")


@pytest.mark.parametrize(
    ("others", "place"),
    [
        ([], 1),
        ([waits("9", 200)], 2),
        ([waits("9", 50)], 1),
        ([waits("49", 100), waits("51", 100)], 2),
        ([waits("9_[1-5]", 200)], 2),
        ([waits("9", 200, "gpu")], 1),
        ([waits("9", 200, "gpu,main")], 2),
        ([waits("9", 0)], 1),
        ([waits("9", 200, reason="Dependency")], 1),
        ([waits("9", 200, reason="JobHeldUser")], 1),
    ],
    ids=str,
)
def test_place_counts_ready_jobs_of_the_partition_that_stand_before(
    others: list[Waiting], place: int
) -> None:
    assert position_of(ME, [*others, waits("50", 100)]) == place


def test_no_place_is_told_where_none_is_known() -> None:
    assert position_of(ME, [waits("9", 200)]) is None
    assert position_of(ME, [waits("50", 100, reason="BeginTime")]) is None


# Words ---------------------------------------------------------------------------------------------------------------


def test_pending_tells_place_reason_and_estimate() -> None:
    state = Pending("Priority", estimated_start=NOW + 600, position=3)
    told = state_text(state, now=NOW)
    assert told.text.startswith("pending, place 3 in the queue, jobs of higher priority go first (Priority)")
    assert ", expected to start in 10 min, at " in told.text


@pytest.mark.parametrize(
    "reason",
    [
        "PartitionTimeLimit",
        "PartitionConfig",
        "BadConstraints",
        "JobHeldUser",
        "InvalidAccount",
        "QOSMaxCpuPerUserLimit",
        "AssocMaxJobsLimit",
        "launch failed requeued held",
    ],
)
def test_what_waiting_does_not_help_comes_with_the_next_step(reason: str) -> None:
    assert state_text(Pending(reason), now=NOW).hint


def test_reason_that_nobody_knows_is_told_as_it_is() -> None:
    assert state_text(Pending("PhaseOfTheMoon"), now=NOW).text == "pending, PhaseOfTheMoon"


def test_requeued_job_says_so() -> None:
    state = state_of(JobRow(1, "PENDING", reason="BeginTime", restarts=2))
    assert "requeued 2 times" in state_text(state, now=NOW).text


@pytest.mark.parametrize("cause", CAUSES)
def test_every_end_has_a_sentence_and_a_next_step(cause: object) -> None:
    told = state_text(Ended(cause, exit_code="3:0", node="n1"), now=NOW)  # type: ignore[arg-type]
    assert told.text.startswith("ended: ")
    assert told.hint


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (Submitting(), "given to SLURM, which has not answered"),
        (Running("n1", ends_at=NOW + 7_000), "running on n1, 116 min left"),
        (Running("n1"), "running on n1"),
        (Ending(), "ending"),
        (Ended("failed", exit_code="3:0"), "ended: its program failed (exit code 3:0)"),
        (Ended("node_failed", node="n2"), "ended: its node failed (n2)"),
    ],
    ids=str,
)
def test_states_in_words(state: AllocationState, text: str) -> None:
    assert state_text(state, now=NOW).text == text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0 s"), (119, "119 s"), (120, "2 min"), (7_200, "2 h 0 min"), (200_000, "2 d 7 h")],
)
def test_spans_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
