"""Which cgroup was given to us, what is written to a kernel's, and what its counters say.

Makes none: see ``tests.kernel.sandbox.test_groups``.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.sandbox import cgroups
from cellwright.sandbox.cgroups import HOME, Facts, Owner
from cellwright.sandbox.exit_reasons import LimitHit
from cellwright.sandbox.policy import Policy, thread_counts

ALL = frozenset({"memory", "pids", "cpu"})
MOUNT = "41 31 0:38 {root} {at} rw,relatime - cgroup2 cgroup2 rw\n"
OURS = Facts(
    directory="/sys/fs/cgroup/a",
    is_root=False,
    controllers=ALL,
    writable=True,
    marked=True,
    boundary=False,
    managed=True,
    user=1000,
)

# Which group it is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cgroup", "root", "at", "found"),
    [
        ("0::/user.slice/a.scope\n", "/", "/sys/fs/cgroup", "/sys/fs/cgroup/user.slice/a.scope"),
        ("9:pids:/\n0::/\n", "/", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified"),
        ("0::/docker/1/in\n", "/docker/1", "/cg", "/cg/in"),
        ("0::/docker/1\n", "/docker/1", "/cg", "/cg"),
        ("0::/a\n", "/", "/with\\040space", "/with space/a"),
        ("0::/docker/12\n", "/docker/1", "/cg", None),
        ("0::/../x\n", "/other", "/cg", None),
        ("4:memory:/a\n", "/", "/sys/fs/cgroup", None),
    ],
)
def test_the_own_group_is_found_by_what_proc_says(cgroup: str, root: str, at: str, found: str | None) -> None:
    mounts = "32 31 0:29 / /v1 rw - cgroup cgroup rw,cpu\n" + MOUNT.format(root=root, at=at)
    assert cgroups.own_group(cgroup, mounts) == ((found, at.replace("\\040", " ")) if found else None)


def test_a_host_that_has_moved_to_its_leaf_still_finds_the_group_that_it_was_given() -> None:
    assert cgroups.given_to(f"/sys/fs/cgroup/a.scope/{HOME}") == "/sys/fs/cgroup/a.scope"
    assert cgroups.given_to("/sys/fs/cgroup/a.scope") == "/sys/fs/cgroup/a.scope"


@pytest.mark.parametrize(
    ("facts", "reason", "remedy"),
    [
        (None, "no cgroup v2", "unified_cgroup_hierarchy"),
        (
            replace(OURS, is_root=True, controllers=frozenset()),
            "lacks memory and pids",
            "unified_cgroup_hierarchy",
        ),
        (replace(OURS, is_root=True), "whole machine's", "systemd-run --user --scope -p Delegate=yes"),
        (replace(OURS, writable=False), "may not be changed", "systemd-run --user --scope -p Delegate=yes"),
        (replace(OURS, writable=False, user=0), "may not be changed", "systemd-run --scope -p Delegate=yes"),
        (replace(OURS, marked=False), "not delegated", "systemd-run --user"),
        (replace(OURS, controllers=frozenset({"memory"})), "not given pids", "Delegate=cpu memory pids"),
    ],
)
def test_a_group_that_will_not_do_is_refused_with_its_reason_and_a_command(
    facts: Facts | None, reason: str, remedy: str
) -> None:
    refused = cgroups.refusal(facts)
    assert refused is not None
    assert reason in refused.reason
    assert remedy in refused.remedy


@pytest.mark.parametrize(
    "facts",
    [
        OURS,
        replace(OURS, marked=False, boundary=True),
        replace(OURS, marked=False, managed=False),
        replace(OURS, controllers=frozenset({"memory", "pids"})),
    ],
    ids=["marked", "ours and nobody else's", "no systemd", "no cpu"],
)
def test_a_group_that_was_given_to_us_is_tried(facts: Facts) -> None:
    assert cgroups.refusal(facts) is None


# What is written and what is read ----------------------------------------------------------------------------------


def test_a_policy_becomes_the_files_of_a_group() -> None:
    policy = Policy(memory_bytes=1000, processes=7, cpus=1.5)
    assert cgroups.group_files(policy, ALL) == {
        "memory.max": "1000",
        "memory.swap.max": "0",
        "memory.oom.group": "0",
        "pids.max": "7",
        "cpu.max": "150000 100000",
    }
    assert "cpu.max" not in cgroups.group_files(policy, {"memory", "pids"})
    free = cgroups.group_files(Policy(memory_bytes=None, processes=None), ALL)
    assert (free["memory.max"], free["memory.swap.max"], free["pids.max"]) == ("max", "max", "max")


@given(st.integers(0), st.integers(0), st.integers(0), st.integers(0))
def test_a_groups_name_tells_who_made_it(namespace: int, pid: int, started: int, number: int) -> None:
    owner = Owner(namespace, pid, started)
    assert cgroups.owner_of(cgroups.group_name(owner, number)) == owner


@given(st.text())
def test_a_strangers_group_is_nobodys(name: str) -> None:
    assert cgroups.owner_of(name) is None
    assert cgroups.owner_of(HOME) is None


@given(st.floats(0.05, 40), st.integers(1, 32), st.integers(0, 1000))
def test_a_share_is_rounded_up_to_processors_that_are_there(cpus: float, count: int, turn: int) -> None:
    available = list(range(100, 100 + count))
    chosen = cgroups.processors(cpus, available, turn)
    assert set(chosen) <= set(available)
    assert len(set(chosen)) == len(chosen)
    assert len(chosen) >= min(cpus, count) or not chosen
    assert len(chosen) < cpus + 1
    assert (chosen == []) == (cpus > count - 1)


def test_kernels_with_a_share_take_turns_on_the_processors() -> None:
    turns = [cgroups.processors(1.5, [0, 1, 2, 3], turn) for turn in range(3)]
    assert turns == [[0, 1], [2, 3], [0, 1]]
    assert cgroups.processors(None, [0, 1], 0) == []


def test_threads_of_numeric_libraries_follow_share_and_limit_where_nobody_named_a_number() -> None:
    assert thread_counts(Policy(cpus=1.5), 16, {}) == {"OMP_NUM_THREADS": "2"}
    assert thread_counts(Policy(processes=128), 16, {"PATH": "/bin"}) == {"OMP_NUM_THREADS": "8"}
    assert thread_counts(Policy(processes=None), 16, {}) == {}
    assert thread_counts(Policy(cpus=4), 2, {}) == {}
    assert thread_counts(Policy(cpus=1), 16, {"OMP_NUM_THREADS": "12"}) == {}


@pytest.mark.parametrize(
    ("oom_kill", "refused", "status", "setting"),
    [
        (1, 0, -9, "max_session_memory"),
        (1, 0, None, "max_session_memory"),
        (2, 9, -6, "max_session_memory"),
        (0, 9, -6, "max_session_processes"),
        (0, 9, 1, "max_session_processes"),
        (0, 9, -9, None),
        (0, 9, 0, None),
        (0, 9, None, None),
        (0, 0, -6, None),
    ],
)
def test_a_groups_counters_explain_an_end(
    oom_kill: int, refused: int, status: int | None, setting: str | None
) -> None:
    hit = cgroups.limit_behind(Policy(), {"oom_kill": oom_kill, "refused": refused}, status)
    assert (hit.setting if isinstance(hit, LimitHit) else None) == setting
    if hit is not None:
        assert setting in hit.message
        assert f"CELLWRIGHT_{hit.setting.upper()}" in hit.next_step


def test_counters_are_read_by_their_whole_name() -> None:
    told = "low 0\noom 4\noom_kill 2\noom_group_kill 1\n"
    assert [cgroups.count_of(key, told) for key in ("oom", "oom_kill", "kill", "max")] == [4, 2, 0, 0]
    assert cgroups.count_of("oom_kill", "") == 0
