"""SLURM's own commands, each with a time limit: what is asked, and how the answers read. Decides nothing.

Arguments are lists, never a shell's. No variable of the caller reaches SLURM or a job unless it is named here: what a
job's environment holds can be read on its node, and a caller's environment holds secrets.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio

from cellwright.errors import SlurmFailed
from cellwright.rlimits import unlimited_children
from cellwright.slurm._states import Ended, JobRow, Waiting, state_of

__all__ = [
    "UNCONFIGURED",
    "SlurmCommands",
    "hint_for",
    "job_environment",
    "parse_jobs",
    "parse_show",
    "parse_waiting",
]

UNCONFIGURED: Final = "SLURM is installed here and not configured"
# No name, reason or path has it.
_SEPARATOR: Final = "\x1f"
_COLUMNS: Final = (
    *("JobID", "State", "Reason", "BatchHost", "StartTime", "EndTime", "SubmitTime", "RestartCnt"),
    *("Partition", "exit_code", "Name", "WorkDir"),
)
# A width of 0 is as wide as need be.
_JOB_FORMAT: Final = ",".join(f"{column}:0{_SEPARATOR}" for column in _COLUMNS)
_WAITING_FORMAT: Final = _SEPARATOR.join(("%i", "%P", "%Q", "%r"))
_COMMON: Final = ("HOME", "LOGNAME", "PATH", "SLURM_CONF", "USER")
_OF_A_JOB: Final = (
    *("LANG", "LANGUAGE", "MODULEPATH", "MODULERCFILE", "MODULESHOME", "SHELL", "TZ"),
    # What a site or a person has set as their own defaults for sbatch.
    *("SBATCH_ACCOUNT", "SBATCH_CONSTRAINT", "SBATCH_GPUS", "SBATCH_PARTITION", "SBATCH_QOS"),
    *("SBATCH_RESERVATION", "SBATCH_TIMELIMIT"),
)
_PREFIXES_OF_A_JOB: Final = ("LC_", "LMOD_")
# Reading its own configuration takes a command milliseconds, and who waits for this is an engine that starts.
_CONFIGURED_S: Final = 10.0
# Said where the question or the answer was lost on the way: whether SLURM did what it was asked is then not known.
_LOST: Final = (
    *("unable to contact", "timed out", "auth", "zero bytes", "connection", "temporarily", "standby"),
    *(
        "send failure",
        "receive failure",
        "shutdown failure",
        "message length",
        "header lengths",
        "broken pipe",
    ),
    *("unreachable", "no route to host"),
)
_AWAY: Final = "SLURM's controller is busy or away; what runs goes on. Try again in a minute"
_FIELD: Final = re.compile(r"(?:^|\s)(\w+)=(.*?)(?=\s+[\w/:]+=|\s*$)", re.DOTALL)
_HINTS: Final = (
    ("invalid partition", "`sinfo` lists the partitions; name one with --partition or slurm_partition"),
    ("invalid account", "`sacctmgr show associations user=$USER` lists your accounts; see slurm_account"),
    ("qos", "`sacctmgr show qos` lists them; see slurm_qos"),
    ("time limit", "Ask for a shorter --time; `sinfo -o '%P %l'` lists the limits"),
    ("--time", "Write it as in `4:00:00`"),
    ("node configuration is not available", "Ask for less; `sinfo -o '%P %c %m %G'` lists what nodes have"),
    ("constraint", "`sinfo -o '%P %f'` lists the features"),
    ("gres", "`sinfo -o '%P %G'` lists what there is"),
    ("submit", "You have as many jobs as your site allows: stop some"),
    ("munge", "The login node cannot prove who you are: tell your site's support that munge fails"),
    ("authentication", "The login node cannot prove who you are: tell your site's support"),
    ("contact slurm", "SLURM's controller is away; what runs goes on. Try again in a minute"),
    (
        "configuration source",
        (
            f"{UNCONFIGURED}: set SLURM_CONF, or CELLWRIGHT_RUN_MODE=local to do without; "
            "then `cellwright daemon stop`, so that the next daemon has it"
        ),
    ),
    ("timed out", _AWAY),
)


@dataclass(frozen=True, slots=True)
class SlurmCommands:
    """SLURM as this user reaches it. Every method raises ``SlurmFailed``."""

    environment: Mapping[str, str]
    """The caller's own."""
    user: int
    timeout_s: float = 20
    pass_environment: tuple[str, ...] = ()
    """Variables that jobs get, beyond the harmless ones."""

    async def is_configured(self) -> bool:
        """Whether there is a cluster behind the commands; in doubt there is, or its outage had code run on a login node."""
        within_s = min(self.timeout_s, _CONFIGURED_S)
        try:
            done = await self._done(["sbatch", "--version"], _command_environment(self.environment), within_s)
        except SlurmFailed:
            return True
        return done.returncode == 0 or not _is_unconfigured(done.stderr.decode(errors="replace"))

    async def submit(self, arguments: Sequence[str], script: Path) -> int:
        """Give a batch script to SLURM; the job's number."""
        environment = job_environment(self.environment, self.pass_environment)
        said = await self._run(["sbatch", "--parsable", *arguments, str(script)], environment)
        number = said.strip().splitlines()[-1].partition(";")[0] if said.strip() else ""
        if not number.isdigit():
            raise SlurmFailed(f"sbatch answered {said.strip()!r} instead of a job's number")
        return int(number)

    async def jobs(self) -> list[JobRow]:
        """Every job of this user that SLURM still knows, ended ones too."""
        asked = ["squeue", "--noheader", "--states=all", f"--user={self.user}", f"--Format={_JOB_FORMAT}"]
        return parse_jobs(await self._run(asked))

    async def waiting(self) -> list[Waiting]:
        """Every pending job of anybody that this user may see."""
        asked = ["squeue", "--noheader", "--states=PENDING", f"--format={_WAITING_FORMAT}"]
        return parse_waiting(await self._run(asked))

    async def past(self, job_id: int) -> JobRow | None:
        """A job that the queue does not list, from the accounts if they know its end, else from the controller.

        None if nobody knows it.
        """
        columns = "State,ExitCode,Start,End,NodeList"
        try:
            said = await self._run(
                [
                    "sacct",
                    "--allocations",
                    "--noheader",
                    "--parsable2",
                    f"--jobs={job_id}",
                    f"--format={columns}",
                ]
            )
        except SlurmFailed:  # most often: there are no accounts here
            said = ""
        for line in said.splitlines()[:1]:
            state, code, start, end, node = (line.split("|") + [""] * 5)[:5]
            row = JobRow(job_id, state, node=_node(node), start=_time(start), end=_time(end), exit_code=code)
            if isinstance(state_of(row), Ended):
                return row
        try:
            return parse_show(await self._run(["scontrol", "--oneliner", "show", "job", str(job_id)]))
        except SlurmFailed as error:
            # No other refusal says anything of this job.
            if "invalid job id" in error.message.lower():
                return None
            raise

    async def cancel(self, job_id: int) -> None:
        """End a job, or take it out of the queue. One that has ended stays ended."""
        await self._run(["scancel", str(job_id)])

    async def _run(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
        if environment is None:
            environment = _command_environment(self.environment)
        done = await self._done(command, environment, self.timeout_s)
        if done.returncode != 0:
            raise _failure(command[0], done.returncode, done.stderr.decode(errors="replace"))
        return done.stdout.decode(errors="replace")

    @staticmethod
    async def _done(
        command: Sequence[str], environment: Mapping[str, str], within_s: float
    ) -> subprocess.CompletedProcess[bytes]:
        name = command[0]
        try:
            # A job begins with the limits of whoever submits it.
            with anyio.move_on_after(within_s), unlimited_children():
                return await anyio.run_process(
                    command, stdin=subprocess.DEVNULL, check=False, env=environment, cwd="/"
                )
        except OSError as error:
            raise SlurmFailed(
                f"{name} cannot be run: {error.strerror}",
                hint="Work on a login node of the cluster, or say run_mode=local",
            ) from error
        raise SlurmFailed(
            f"{name} did not answer within {within_s:g} s",
            hint="SLURM's controller is busy or away; what runs goes on. slurm_command_timeout_s is the limit",
        )


def job_environment(environment: Mapping[str, str], passed: Sequence[str] = ()) -> dict[str, str]:
    """What a job sees of the caller's environment; the rest it has from its login shell."""
    return {
        name: value
        for name, value in environment.items()
        if name in _COMMON or name in _OF_A_JOB or name in passed or name.startswith(_PREFIXES_OF_A_JOB)
    }


def parse_jobs(said: str) -> list[JobRow]:
    """Rows of ``squeue``. Arrays and heterogeneous jobs are never ours and are left out."""
    return [
        JobRow(
            job_id=int(job_id),
            state=state,
            reason=reason,
            node=_node(node),
            start=_time(start),
            end=_time(end),
            submitted=_time(submitted),
            restarts=int(restarts) if restarts.isdigit() else 0,
            partition=partition,
            name=name,
            directory=directory,
            exit_code=_exit_code(code),
        )
        for fields in _rows(said, len(_COLUMNS) + 1)
        for job_id, state, reason, node, start, end, submitted, restarts, partition, code, name, directory in [
            fields[:-1]
        ]
        if job_id.isdigit()
    ]


def parse_waiting(said: str) -> list[Waiting]:
    return [
        Waiting(job_id, frozenset(partitions.split(",")), int(priority) if priority.isdigit() else 0, reason)
        for job_id, partitions, priority, reason in _rows(said, 4)
    ]


def parse_show(said: str) -> JobRow | None:
    """A job as ``scontrol show job`` tells it."""
    about = dict(_FIELD.findall(said))
    if not about.get("JobId", "").isdigit():
        return None
    return JobRow(
        job_id=int(about["JobId"]),
        state=about.get("JobState", ""),
        reason=about.get("Reason", ""),
        node=_node(about.get("BatchHost", "")),
        start=_time(about.get("StartTime", "")),
        end=_time(about.get("EndTime", "")),
        restarts=int(about.get("Restarts", "0")),
        exit_code=about.get("ExitCode", ""),
    )


def hint_for(said: str) -> str | None:
    """What to do about something that a command of SLURM complains of."""
    text = said.lower()
    return next((hint for words, hint in _HINTS if words in text), None)


def _is_unconfigured(said: str) -> bool:
    """Whether a command found no configuration, and nobody who would have one.

    Where a controller gives it out, DNS names that controller: only where DNS answers that there is none is it certain
    that this is no controller, or DNS, that is away.
    """
    text = said.lower()
    nobody = "unknown host" in text or "no address associated with name" in text
    return "configuration source" in text and "dns srv" in text and nobody


def _failure(name: str, code: int, stderr: str) -> SlurmFailed:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    last = lines[-1] if lines else "it said nothing"
    # One that a signal ended says nothing of what it had sent before.
    lost = code < 0 or any(words in last.lower() for words in _LOST)
    hint = hint_for(stderr) or (_AWAY if lost else None)
    return SlurmFailed(f"{name} ended with code {code}: {last}", refused=not lost, hint=hint)


def _command_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Times as seconds, words in English, and none of what would change a format."""
    known = {name: environment[name] for name in _COMMON if name in environment}
    return {**known, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}


def _rows(said: str, columns: int) -> Iterator[list[str]]:
    for line in said.split("\n"):
        fields = [field.strip() for field in line.split(_SEPARATOR)]
        if len(fields) == columns:
            yield fields


def _time(text: str) -> float | None:
    return float(text) if text.isdigit() else None


def _exit_code(text: str) -> str:
    """``squeue`` has it as the kernel does, all others as ``code:signal``."""
    return f"{int(text) >> 8}:{int(text) & 0x7F}" if text.isdigit() else text


def _node(text: str) -> str | None:
    return text if text not in ("", "n/a", "(null)", "None assigned") else None
