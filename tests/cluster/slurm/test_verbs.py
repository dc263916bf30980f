"""``cellwright host start``, ``wait``, ``status``, ``list`` and ``stop`` on a real cluster, through a real daemon."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.slurm.cluster import Cluster
from tests.system.daemon.conftest import Place, place_in
from tests.waiting import LIMIT_S, UNHURRIED_VARIABLES, scaled

SETTINGS = {
    **UNHURRIED_VARIABLES,
    "CELLWRIGHT_RUN_MODE": "slurm",
    "CELLWRIGHT_SLURM_WAIT_S": str(min(280, scaled(60))),
}


@pytest.fixture(scope="module")
def login(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A user's place on the login node, with a daemon; afterwards no job is left."""
    variables = {
        **SETTINGS,
        "CELLWRIGHT_SLURM_CPUS": "1",
        "CELLWRIGHT_SLURM_MEM": "1500",
        "CELLWRIGHT_SLURM_TIME": "10",
        "CELLWRIGHT_SLURM_DEBUG_PARTITION": "high",
        "CELLWRIGHT_SLURM_DEBUG_TIME": "2",
        "CELLWRIGHT_SLURM_MAX_ALLOCATIONS": "2",
        **cluster.env,
    }
    with place_in(tmp_path_factory.mktemp("login"), **variables) as place:
        yield place
        place.run("stop", "--all")
    cluster.restore()


@pytest.fixture(autouse=True)
def _no_allocations(login: Place) -> Iterator[None]:
    yield
    login.run("stop", "--all")
    # One that takes its time over its end is still there for the next test.
    while len(told(login, "hosts")["hosts"]) > 1:
        pass


def told(place: Place, *arguments: str) -> Any:
    done = place.run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_allocation_is_started_waited_for_shown_and_stopped(login: Place, cluster: Cluster) -> None:
    started = login.run("start")
    assert (started.returncode, started.stdout) == (0, "slurm:default\n")
    ready = told(login, "wait")
    assert ready["state"] == "ready"
    assert ready["node"] in cluster.nodes
    assert told(login, "status", "default")["job_id"] == ready["job_id"]
    assert told(login, "status", str(ready["job_id"]))["host"] == "slurm:default"
    assert [one["host"] for one in told(login, "hosts")["hosts"]] == ["local", "slurm:default"]
    assert "slurm:default" in login.run("status").stdout
    assert [one["host"] for one in told(login, "status")["hosts"]] == ["local", "slurm:default"]
    assert login.run("stop").stdout == "slurm:default\n"
    waited = login.run("wait", "default")
    assert waited.returncode == 1
    assert waited.stderr.startswith("error: slurm:default ended: it was cancelled\nhint: ")


def test_session_runs_in_the_allocation_and_goes_on_in_the_next_one(login: Place) -> None:
    session = login.run("new", "a problem").stdout.strip()
    assert login.run("exec", session, "--code", "print(6 * 7)").stdout == "42\n"
    (allocation,) = [one for one in told(login, "hosts")["hosts"] if one["host"] == "slurm:default"]
    assert allocation["kernels"] == 1
    assert login.run("stop").returncode == 0
    assert login.run("wait", "default").returncode == 1
    assert [one["session_id"] for one in told(login, "list", "--filter", "suspended")] == [session]
    assert login.run("exec", session, "--code", "print(6 * 8)").stdout == "48\n"
    assert told(login, "status", "default")["job_id"] != allocation["job_id"]


def test_session_goes_to_the_allocation_that_is_named_and_says_so(login: Place) -> None:
    assert login.run("start", "--name", "own", "--wait").returncode == 0
    created = login.run("new", "there", "--host", "own")
    session = created.stdout.strip()
    assert "on slurm:own" in created.stderr
    assert [one["host"] for one in told(login, "list") if one["session_id"] == session] == ["slurm:own"]
    assert login.run("stop", "own").returncode == 0
    ended = login.run("wait", "own")
    assert "hint: `cellwright host start --name own` asks for another" in ended.stderr
    shown = login.run("show", session).stdout
    assert "host         slurm:own\n" in shown
    assert "Allocation 'own' (job " in shown
    assert "ended: it was cancelled" in shown
    refused = login.run("exec", session, "--code", "1")
    assert "`cellwright host start --name own` asks for one" in refused.stderr


def test_interrupted_wait_names_what_would_stop_that_one(login: Place) -> None:
    assert login.run("start", "--name", "huge", "--cpus", "4000").returncode == 0
    waiting = login.start("wait", "huge")
    assert waiting.stderr is not None
    assert waiting.stderr.readline().startswith(b"slurm:huge: pending, ")
    waiting.send_signal(signal.SIGINT)
    said = waiting.communicate(timeout=LIMIT_S)[1].decode()
    assert waiting.returncode == 130
    assert "`cellwright host stop huge` takes it out of the queue" in said


def test_debug_is_short_and_goes_to_its_partition_and_says_where_its_log_is(
    login: Place, cluster: Cluster
) -> None:
    done = login.run("start", "--debug", "--json")
    found = json.loads(done.stdout)
    assert found["host"] == "slurm:debug"
    assert f"{found['directory']}/job.sh" in done.stderr
    job = cluster.job(str(found["job_id"]))
    assert (job["Partition"], job["TimeLimit"]) == ("high", "00:02:00")


def test_flags_reach_slurm(login: Place, cluster: Cluster) -> None:
    found = told(
        login, "start", "--name", "own", "--partition", "high", "--cpus", "2", "--mem", "700", "--time", "7"
    )
    job = cluster.job(str(found["job_id"]))
    assert job["JobName"] == "cellwright-own"
    assert (job["Partition"], job["CPUs/Task"], job["MinMemoryNode"]) == ("high", "2", "700M")
    assert job["TimeLimit"] == "00:07:00"


def test_waiting_allocation_says_what_would_help(login: Place) -> None:
    assert login.run("start", "--name", "huge", "--cpus", "4000").returncode == 0
    shown = login.run("status", "huge")
    assert shown.returncode == 0
    assert " pending " in shown.stdout
    while "fewer --cpus" not in shown.stderr:  # the scheduler looks at it in a round of its own
        shown = login.run("status", "huge")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("start", "--nodes", "2"), "Start more allocations instead"),
        (("start", "--time", "soon"), "is no time limit"),
        (("start", "--partition", "absent"), "`sinfo` lists the partitions"),
        (("start", "--module", "../evil"), "`module avail`"),
        (("start", "--name", "4711"), "cannot be called"),
        (("stop", "absent"), "no allocation 'absent'"),
        (("stop",), "There is no allocation"),
        (("wait", "absent"), "no allocation 'absent'"),
        (("status", "slurm:absent"), "no host 'slurm:absent'"),
        (("status", "absent"), "no session 'absent'"),
    ],
)
def test_what_cannot_be_is_refused_with_the_next_step(
    login: Place, arguments: tuple[str, ...], said: str
) -> None:
    done = login.run(*arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert said in done.stderr


def test_bad_usage_is_told_as_such(login: Place) -> None:
    assert login.run("stop", "one", "--all").returncode == 2
    assert login.run("start", "--cpus", "many").returncode == 2


def test_third_allocation_is_refused_with_its_setting(login: Place) -> None:
    for name in ("one", "two"):
        assert login.run("start", "--name", name).returncode == 0
    done = login.run("start", "--name", "three")
    assert done.returncode == 1
    assert "slurm_max_allocations" in done.stderr
    several = login.run("stop")
    assert several.returncode == 1
    assert "several allocations: one, two" in several.stderr


def test_started_again_it_is_found_and_not_asked_for_twice(login: Place) -> None:
    first = told(login, "start")
    assert told(login, "start")["job_id"] == first["job_id"]
    other = login.run("start", "--cpus", "2")
    assert other.returncode == 1
    assert "another shape" in other.stderr


def test_next_daemon_finds_it(login: Place) -> None:
    first = told(login, "start", "--wait")
    killed = login.daemon()
    killed.kill()
    killed.wait(LIMIT_S)
    found = told(login, "wait")
    assert (found["job_id"], found["state"]) == (first["job_id"], "ready")


def test_stop_of_all_names_one_that_it_cannot_end_yet_and_ends_the_others(
    cluster: Cluster, tmp_path: Path
) -> None:
    sbatch, lossy = tmp_path / "commands" / "sbatch", tmp_path / "lossy"
    sbatch.parent.mkdir()
    lost = "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received"
    script = f'[ -e {lossy} ] && echo "{lost}" >&2 && exit 1\nexec {shutil.which("sbatch")} "$@"\n'
    sbatch.write_text(f"#!/bin/sh\n{script}")
    sbatch.chmod(0o755)
    path = f"{sbatch.parent}:{os.environ['PATH']}"
    variables = {**SETTINGS, "CELLWRIGHT_SLURM_MEM": "500", **cluster.env, "PATH": path}
    with place_in(tmp_path, **variables) as place:
        lossy.touch()
        assert "Zero Bytes" in place.run("start", "--name", "lost").stderr
        lossy.unlink()
        assert place.run("start", "--name", "taken").returncode == 0
        stopped = place.run("stop", "--all")
        assert stopped.returncode != 0
        assert "nothing was ended" in stopped.stderr
        hosts = {one["host"]: one["state"] for one in told(place, "hosts")["hosts"]}
        assert hosts.get("slurm:taken", "ended") in ("ending", "ended")


def test_program_that_fails_is_told_with_where_to_look(cluster: Cluster, tmp_path: Path) -> None:
    variables = {
        **SETTINGS,
        "CELLWRIGHT_SLURM_MEM": "500",
        "CELLWRIGHT_SLURM_MODULES": "absent/1.0",
        **cluster.env,
    }
    with place_in(tmp_path, **variables) as place:
        done = place.run("start", "--wait", "--json")
        assert done.returncode == 1
        found = json.loads(done.stdout)
        assert "exit code 97:0" in found["detail"]
        assert "job.log" in found["next"]
        assert "absent/1.0 cannot be loaded" in (Path(found["directory"]) / "job.log").read_text()


def test_on_this_machine_the_same_verbs_do_what_makes_sense(tmp_path: Path) -> None:
    with place_in(tmp_path) as place:
        assert place.run("start", "--wait").stdout == "local\n"
        session = place.run("new", "here").stdout.strip()
        assert told(place, "status", "local")["kernels"] == 1
        refused = place.run("start", "--cpus", "4")
        assert refused.returncode == 1
        assert "ask for host `slurm`" in refused.stderr.replace("Ask", "ask")
        assert place.run("stop").stdout == "local\n"
        listed = told(place, "list", "--filter", "suspended")
        assert [one["session_id"] for one in listed] == [session]
