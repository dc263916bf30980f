"""SLURM's own commands: what they are asked, how their answers read, and what becomes of one that hangs or fails."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import anyio
import pytest

from cellwright.errors import HostUnreachable, SlurmFailed
from cellwright.slurm import commands as slurm_commands
from cellwright.slurm._directories import Allocation, Claim, Fence, HostAddress, write_host_address
from cellwright.slurm._shapes import Shape
from cellwright.slurm._states import Running
from cellwright.slurm._transport import AllocationTransport
from cellwright.slurm.commands import (
    SlurmCommands,
    hint_for,
    job_environment,
    parse_jobs,
    parse_show,
    parse_waiting,
)
from tests.marked import marked
from tests.support.slurm.cluster import Cluster
from tests.waiting import LIMIT_S, until

pytestmark = pytest.mark.anyio

MARK = "CELLWRIGHT_TEST_COMMAND"
S = "\x1f"
NO_SOURCE = "sbatch: fatal: Could not establish a configuration source"
NOBODY = "sbatch: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host"
LOOKUP = "sbatch: error: fetch_config: DNS SRV lookup failed"


@pytest.fixture
def commands(cluster: Cluster) -> SlurmCommands:
    return SlurmCommands({**os.environ, **cluster.env}, os.getuid(), timeout_s=LIMIT_S)


@pytest.fixture
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not say in time whether it is configured counts as one that is."""
    monkeypatch.setattr(slurm_commands, "_CONFIGURED_S", LIMIT_S)


def fake(directory: Path, name: str, script: str, *, timeout_s: float = 60) -> SlurmCommands:
    """A SLURM whose command does something that a real one does only on a bad day."""
    program = directory / name
    program.write_text(f"#!/bin/sh\nexport {MARK}={directory}\n{script}\n")
    program.chmod(0o755)
    return SlurmCommands({"PATH": f"{directory}:{os.environ['PATH']}"}, os.getuid(), timeout_s=timeout_s)


# Answers, as seen ----------------------------------------------------------------------------------------------------


def test_row_of_squeue_is_read_by_its_columns() -> None:
    fields = (
        "7",
        "PENDING",
        "Nodes required for job are DOWN, DRAINED or reserved",
        "n/a",
        "1794771120",
        "N/A",
    )
    rest = ("1794770872", "2", "main", "768", "cellwright-a|b", "/shared/a b", "")
    (row,) = parse_jobs(S.join((*fields, *rest)) + "\n")
    assert (row.job_id, row.state, row.node, row.start, row.end) == (7, "PENDING", None, 1794771120.0, None)
    assert (row.restarts, row.name, row.directory) == (2, "cellwright-a|b", "/shared/a b")
    assert row.exit_code == "3:0"
    assert row.reason == "Nodes required for job are DOWN, DRAINED or reserved"


def test_what_is_no_row_of_ours_is_left_out() -> None:
    array = S.join(("7_[1-3]", *[""] * 12))
    assert parse_jobs(f"slurm_load_jobs: a warning\n{array}\n\n") == []


def test_queue_is_read_with_several_partitions() -> None:
    (one,) = parse_waiting(S.join(("7_[1-3]", "main,gpu", "4294901756", "Priority")))
    assert one.partitions == {"main", "gpu"}
    assert one.priority == 4294901756


def test_job_is_read_from_what_scontrol_shows() -> None:
    said = (
        "JobId=1 JobName=cell x=y JobState=PREEMPTED Reason=None Dependency=(null) Requeue=0 Restarts=1 ExitCode=0:15 "
        "StartTime=1794770874 EndTime=1794770876 NodeList=n1 BatchHost=n1 Comment=a\nb  Power= \n"
    )
    row = parse_show(said)
    assert row is not None
    assert (row.state, row.node, row.end, row.restarts, row.exit_code) == (
        "PREEMPTED",
        "n1",
        1794770876.0,
        1,
        "0:15",
    )
    assert parse_show("No jobs in the system\n") is None


# A job's environment -------------------------------------------------------------------------------------------------


def test_job_sees_nothing_of_the_caller_that_is_not_named() -> None:
    environment = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "MODULEPATH": "/m",
        "SBATCH_ACCOUNT": "a",
        "SBATCH_WAIT": "1",
        "SLURM_JOB_ID": "3",
        "ANTHROPIC_API_KEY": "secret",
        "CELLWRIGHT_TOKEN": "secret",
        "DATA_DIR": "/d",
    }
    assert set(job_environment(environment)) == {"PATH", "LC_ALL", "MODULEPATH", "SBATCH_ACCOUNT"}
    assert job_environment(environment, ("DATA_DIR",))["DATA_DIR"] == "/d"


# Commands that fail --------------------------------------------------------------------------------------------------


async def test_way_to_a_host_tells_the_node_nothing_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, "srun", f"env > {tmp_path / 'told'}; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("CELLWRIGHT_JUPYTER_TOKEN", "OPENAI_API_KEY", "SLURM_JOB_ID"):
        monkeypatch.setenv(name, "secret")
    way = AllocationTransport(Tracked(tmp_path), tmp_path, python="python3")
    claim = Claim(7, 0, "abc")
    assert Fence(tmp_path).claim(claim)
    way.paths.home.mkdir()
    write_host_address(way.paths.current, HostAddress(1, claim.incarnation, "/no/socket", "n1", 7, 0))
    with pytest.raises(HostUnreachable):
        await way.connect()
    assert "secret" not in (tmp_path / "told").read_text()
    assert "PATH=" in (tmp_path / "told").read_text()


class Tracked:
    """Says of one allocation that it runs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find(self, _: str) -> Allocation:
        where = str(self._directory)
        return Allocation(self._directory.name, "a", where, Shape(), 0.0, Running("n1"), job_id=7)

    async def look(self) -> bool:
        return True

    def doubt(self, _: str) -> None: ...

    def trust(self, _: str) -> None: ...


async def test_hanging_command_is_given_up_and_leaves_no_process(tmp_path: Path) -> None:
    with pytest.raises(SlurmFailed, match=r"squeue did not answer within 0.5 s") as failure:
        await fake(tmp_path, "squeue", "exec sleep 1000", timeout_s=0.5).jobs()
    assert not failure.value.refused
    assert "slurm_command_timeout_s" in (failure.value.hint or "")
    await until(lambda: not list(marked(MARK, str(tmp_path))))


async def test_failing_command_tells_its_name_exit_and_last_line(tmp_path: Path) -> None:
    with pytest.raises(SlurmFailed, match=r"scancel ended with code 3: second") as failure:
        await fake(tmp_path, "scancel", "echo first >&2; echo second >&2; exit 3").cancel(1)
    assert failure.value.refused


@pytest.mark.parametrize(
    "said",
    [
        "echo 'Batch job submission failed: Zero Bytes were transmitted or received' >&2; exit 1",
        "echo 'Batch job submission failed: Connection reset by peer' >&2; exit 1",
        "echo 'Batch job submission failed: Message receive failure' >&2; exit 1",
        "echo 'Batch job submission failed: Resource temporarily unavailable' >&2; exit 1",
        "echo 'Controller is in standby mode, try a different controller' >&2; exit 1",
        "kill -9 $$",
    ],
)
async def test_answer_that_was_lost_is_no_refusal(tmp_path: Path, said: str) -> None:
    with pytest.raises(SlurmFailed) as failure:
        await fake(tmp_path, "sbatch", said).submit([], tmp_path / "job.sh")
    assert not failure.value.refused
    assert "Try again" in (failure.value.hint or "")


@pytest.mark.parametrize("said", ["Zero Bytes were transmitted or received", NO_SOURCE, "something new"])
async def test_job_is_unknown_only_where_slurm_says_that_of_it(tmp_path: Path, said: str) -> None:
    with pytest.raises(SlurmFailed, match=said):
        await fake(tmp_path, "scontrol", f"echo '{said}' >&2; exit 1").past(7)


async def test_missing_command_says_where_it_would_be(tmp_path: Path) -> None:
    with pytest.raises(SlurmFailed, match=r"squeue cannot be run.*login node"):
        await SlurmCommands({"PATH": str(tmp_path)}, os.getuid()).jobs()


async def test_answer_without_a_number_is_no_job(tmp_path: Path) -> None:
    with pytest.raises(SlurmFailed, match="instead of a job's number"):
        await fake(tmp_path, "sbatch", "echo welcome").submit([], tmp_path / "job.sh")


async def test_site_that_prints_more_than_the_number_is_understood(tmp_path: Path) -> None:
    commands = fake(tmp_path, "sbatch", "echo 'You have 3 hours left'; echo '4711;cluster'")
    assert await commands.submit([], tmp_path / "job.sh") == 4711


def test_what_waiting_mends_is_told_from_what_it_does_not() -> None:
    assert "controller" in (hint_for("slurm_load_jobs error: Unable to contact slurm controller") or "")
    assert "sinfo" in (hint_for("sbatch: error: invalid partition specified: nope") or "")
    assert hint_for("something new") is None


@pytest.mark.parametrize(
    ("said", "configured"),
    [
        ((NOBODY, LOOKUP, NO_SOURCE), False),
        ((NOBODY.replace("Unknown host", "Host name lookup failure"), LOOKUP, NO_SOURCE), True),
        (("sbatch: error: Unable to contact slurm controller (connect failure)", NO_SOURCE), True),
        (("sbatch: fatal: Unable to process configuration file",), True),
    ],
)
@pytest.mark.usefixtures("_unhurried")
async def test_only_a_client_that_nobody_configures_is_without_a_cluster(
    tmp_path: Path,
    said: tuple[str, ...],
    configured: bool,
) -> None:
    lines = "\n".join(said)
    commands = fake(tmp_path, "sbatch", f"cat >&2 <<'END'\n{lines}\nEND\nexit 1")
    assert await commands.is_configured() is configured


async def test_client_that_hangs_counts_as_configured(tmp_path: Path) -> None:
    assert await fake(tmp_path, "sbatch", "exec sleep 1000", timeout_s=0.5).is_configured()


# The real ones -------------------------------------------------------------------------------------------------------


async def test_refusal_of_the_real_sbatch_comes_with_the_next_step(
    commands: SlurmCommands, tmp_path: Path
) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(SlurmFailed, match=r"sbatch ended with code 1.*Invalid partition.*`sinfo`") as failure:
        await commands.submit(["--partition=absent"], script)
    assert failure.value.refused


async def test_real_client_is_configured_where_it_has_a_configuration(
    commands: SlurmCommands, tmp_path: Path
) -> None:
    assert await commands.is_configured()
    elsewhere = SlurmCommands({"PATH": os.environ["PATH"], "SLURM_CONF": str(tmp_path / "slurm.conf")}, 0)
    assert await elsewhere.is_configured(), "a configuration that cannot be read is one"


@pytest.mark.usefixtures("_unhurried")
async def test_real_client_that_finds_no_configuration_is_recognised() -> None:
    if (sbatch := shutil.which("sbatch")) is None:
        pytest.skip("SLURM is not installed")
    bare = {"PATH": os.environ["PATH"]}
    asked = await anyio.run_process([sbatch, "--version"], check=False, env=bare)
    if b"Unknown host" not in asked.stderr:
        pytest.skip("SLURM is configured, or DNS does not answer")
    assert not await SlurmCommands(bare, os.getuid(), timeout_s=LIMIT_S).is_configured()


async def test_job_that_slurm_never_had_is_not_there(commands: SlurmCommands) -> None:
    assert await commands.past(99_999_999) is None


async def test_ended_job_is_found_with_its_cause(commands: SlurmCommands, mended: Cluster) -> None:
    job = mended.submit("exit 3")
    mended.wait_for_state(job, "FAILED")
    past = await commands.past(int(job))
    assert past is not None
    assert (past.state, past.exit_code) == ("FAILED", "3:0")
    (row,) = [row for row in await commands.jobs() if row.job_id == int(job)]
    assert row.state == "FAILED"
    assert row.exit_code == "3:0"


async def test_answers_do_not_depend_on_the_callers_own_settings(mended: Cluster) -> None:
    job = mended.submit("sleep 600")
    mended.wait_for_state(job, "RUNNING")
    odd = {
        "SQUEUE_FORMAT": "%i",
        "SLURM_TIME_FORMAT": "relative",
        "SQUEUE_STATES": "PENDING",
        "LC_ALL": "de_DE",
    }
    commands = SlurmCommands({**os.environ, **mended.env, **odd}, os.getuid(), timeout_s=LIMIT_S)
    (row,) = [row for row in await commands.jobs() if row.job_id == int(job)]
    assert row.state == "RUNNING"
    assert row.node in mended.nodes
    assert row.start is not None
    assert row.end is not None
    assert row.end > row.start
