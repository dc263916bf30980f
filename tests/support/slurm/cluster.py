"""A real SLURM cluster of three nodes on one machine, for as long as a test run lasts.

Each node has a network of its own and a host name of its own; all share this machine's files, as nodes of a cluster
share theirs. The login node is the machine itself. Needs root and Debian's packages (``MISSING_HINT``); writes nothing
outside its directory, the network namespaces and the cgroups, and leaves none of them behind. What a killed run left
is swept away by the next one in the same slot. Knows nothing of Cellwright.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import secrets
import select
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import IO

from tests.marked import kill_and_wait, marked
from tests.support.slurm.layout import (
    SLOTS,
    Layout,
    cgroup_configuration,
    gres_configuration,
    slurm_configuration,
)
from tests.waiting import LIMIT_S, PACE_S, scaled

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "ip", "nsenter", "setpriv")
MISSING_HINT = (
    "as root, apt install munge slurm-client slurmctld slurmd slurm-wlm-basic-plugins iproute2 (in a container with "
    "CAP_SYS_ADMIN, CAP_NET_ADMIN and writable cgroups)"
)
DIRECTORIES = Path("/var/cache")
CGROUPS = Path("/sys/fs/cgroup")
# In the environment of every daemon, and so of every step's own process: how a later run knows them.
MARK = "CELLWRIGHT_TEST_CLUSTER"
COMMAND_LIMIT_S = scaled(60)
UP_LIMIT_S = scaled(90)


class ClusterBrokenError(Exception):
    """The cluster did not do what it was told. Holds the end of its logs."""


def missing_programs() -> list[str]:
    """What this machine lacks for a cluster, in words."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    return missing if os.geteuid() == 0 else [*missing, "root"]


class Cluster:
    """Partitions ``main`` (the default) and ``high``, which preempts it; the first node claims two GPUs."""

    def __init__(self) -> None:
        self._lock, slot = _free_slot()
        self.layout = Layout(slot, DIRECTORIES / f"cellwright-cluster-{slot}")
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.layout.nodes

    @property
    def env(self) -> dict[str, str]:
        """What a process needs in its environment to use this cluster."""
        return {"SLURM_CONF": str(self.layout.configuration)}

    @property
    def user(self) -> pwd.struct_passwd:
        """An account that is not root, for jobs as people have them. Its home is not there: give it one."""
        return pwd.getpwnam("nobody")

    def up(self) -> None:
        """Start everything; all nodes are idle afterwards."""
        self._sweep()
        self._write_files()
        self._start_munge()
        self._make_networks()
        self._start_controller()
        for node in self.nodes:
            self.start_slurmd(node)
        self.wait_idle()

    def down(self) -> None:
        """End everything and leave nothing behind."""
        with suppress(subprocess.SubprocessError):
            self._cancel_all()
        for name in (*self.nodes, "controller", "munge"):
            self._stop(name)
        self._sweep()
        self._lock.close()

    def run(
        self,
        *argv: str,
        timeout_s: float = COMMAND_LIMIT_S,
        check: bool = True,
        as_user: bool = False,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: str = "",
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the login node, by default as root. No SLURM command may hang a test run."""
        done = subprocess.run(
            self.as_user(*argv) if as_user else argv,
            env={**os.environ, "PATH": _path(), **(env or {}), **self.env},
            cwd=cwd or self.layout.directory / "scratch",
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if check and done.returncode != 0:
            raise ClusterBrokenError(f"{' '.join(argv)} exited with {done.returncode}: {done.stderr.strip()}")
        return done

    def as_user(self, *argv: str) -> tuple[str, ...]:
        """The same command line as the ordinary user."""
        user = self.user
        identity = (f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--inh-caps=-all")
        return ("setpriv", *identity, "--", *argv)

    def submit(self, script: str, *options: str, as_user: bool = False) -> str:
        """Give ``sbatch`` a shell script on its standard input; returns the job's number."""
        output = ("--output", str(self.layout.directory / "scratch" / "job-%j.out"))
        asked = ("sbatch", "--parsable", *output, *options)
        return self.run(*asked, stdin=f"#!/bin/sh\n{script}\n", as_user=as_user).stdout.strip()

    def job(self, job_id: str) -> dict[str, str]:
        """What ``scontrol show job`` says, by its own names: ``JobState``, ``Reason``, ``BatchHost``, ``ExitCode``…"""
        said = self.run("scontrol", "--oneliner", "show", "job", job_id).stdout
        return dict(word.split("=", 1) for word in said.split() if "=" in word)

    def end_soon(self, job_id: str, *, minutes: int) -> None:
        """Have a job's time be over so many minutes from now, or up to one more: SLURM counts whole ones."""
        *days, clock = self.job(job_id)["RunTime"].split("-")
        hours, gone, _ = (int(part) for part in clock.split(":"))
        ran = (int(days[0]) if days else 0) * 1_440 + hours * 60 + gone
        self.run("scontrol", "update", f"JobId={job_id}", f"TimeLimit={ran + 1 + minutes}")

    def wait_for_state(self, job_id: str, *states: str, limit_s: float = COMMAND_LIMIT_S) -> dict[str, str]:
        """Wait until a job is in one of these states."""
        latest: dict[str, str] = {}

        def reached() -> bool:
            with suppress(ClusterBrokenError):  # a controller that is busy does not always answer
                latest.update(self.job(job_id))
            return latest.get("JobState") in states

        self._until(reached, f"job {job_id} is {' or '.join(states)}", limit_s)
        return latest

    def wait_idle(self, limit_s: float = UP_LIMIT_S) -> None:
        """Wait until every node is free."""
        asked = ("sinfo", "--noheader", "--partition", "main", "--states", "idle", "--format", "%D")
        everyone = str(len(self.nodes))

        def idle() -> bool:
            return self.run(*asked, check=False).stdout.strip() == everyone

        self._until(idle, "all nodes are idle", limit_s)

    def kill_slurmd(self, node: str) -> None:
        """Kill -9 a node's daemon; what runs on the node goes on."""
        self._daemons[node].kill()
        self._daemons.pop(node).wait()

    def start_slurmd(self, node: str) -> None:
        inside = (
            # Not `ip netns exec`, which mounts /sys anew and so hides the cgroups.
            *("nsenter", f"--net=/run/netns/{self.layout.namespace(node)}"),
            *("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', node),
        )
        self._start(node, *inside, "slurmd", "-D", "-N", node, "-f", str(self.layout.configuration))

    def cut(self, node: str) -> None:
        """Unplug a node's network."""
        _ip("link", "set", self.layout.link(node), "down")

    def heal(self, node: str) -> None:
        _ip("link", "set", self.layout.link(node), "up")

    def restart_controller(self) -> None:
        self.stop_controller()
        self._start_controller()

    def stop_controller(self) -> None:
        self._stop("controller")

    def start_controller(self) -> None:
        self._start_controller()

    def restore(self) -> None:
        """After whatever a test did: no jobs, and every node there and idle."""
        for node in self.nodes:
            self.heal(node)
            if node not in self._daemons:
                self.start_slurmd(node)
        if "controller" not in self._daemons:
            self._start_controller()
        self._cancel_all()
        # A node that is draining, or down for a reason of its own, does not come back unasked.
        self.run("scontrol", "update", f"NodeName={','.join(self.nodes)}", "State=RESUME", check=False)
        self.wait_idle()

    def _cancel_all(self) -> None:
        for user in ("root", self.user.pw_name):  # of several --user, scancel takes the last
            self.run("scancel", "--user", user, check=False)

    def _write_files(self) -> None:
        here = self.layout.directory
        # Ordinary users reach the configuration and munge's socket, and nothing else of weight.
        here.mkdir(mode=0o755)
        for name in ("munge", "state", "scratch", *(f"spool-{node}" for node in self.nodes)):
            (here / name).mkdir(mode=0o755)
        (here / "scratch").chmod(0o1777)
        version = 2 if (CGROUPS / "cgroup.controllers").is_file() else 1
        self.layout.configuration.write_text(slurm_configuration(self.layout))
        (here / "cgroup.conf").write_text(cgroup_configuration(version=version))
        (here / "gres.conf").write_text(gres_configuration(self.layout))
        key = here / "munge" / "key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))

    def _start_munge(self) -> None:
        here = self.layout.directory / "munge"
        files = {"key": "key", "socket": "socket", "pid": "pid", "log": "log", "seed": "seed"}
        options = [
            f"--{option}{'' if option == 'socket' else '-file'}={here / name}"
            for option, name in files.items()
        ]
        self._start("munge", "munged", "--foreground", "--force", *options)
        self._until(self.layout.munge_socket.exists, "munge listens", UP_LIMIT_S)

    def _start_controller(self) -> None:
        self._start("controller", "slurmctld", "-D", "-f", str(self.layout.configuration))

        def answers() -> bool:
            return self.run("scontrol", "ping", check=False).returncode == 0

        self._until(answers, "the controller answers", UP_LIMIT_S)

    def _start(self, name: str, *argv: str) -> None:
        # A session of its own: Ctrl-C in the terminal is for the tests, which then take the cluster down in order.
        self._daemons[name] = subprocess.Popen(
            argv,
            env={**os.environ, "PATH": _path(), **self.env, MARK: str(self.layout.directory)},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _stop(self, name: str) -> None:
        if (process := self._daemons.pop(name, None)) is None:
            return
        process.terminate()
        try:
            process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _until(self, condition: Callable[[], bool], what: str, limit_s: float) -> None:
        """Wait for a condition, and no longer once a daemon that should be there has ended."""
        deadline = monotonic() + limit_s
        watched = next(iter(self._daemons.values()))
        while not condition():
            ended = [name for name, process in self._daemons.items() if process.poll() is not None]
            if ended or monotonic() > deadline:
                reason = f"ended: {', '.join(ended)}" if ended else f"not within {limit_s:g} s"
                raise ClusterBrokenError(f"Waited until {what}; {reason}\n{self._log_tails()}")
            with suppress(subprocess.TimeoutExpired):
                watched.wait(timeout=PACE_S)

    def _log_tails(self) -> str:
        logs = sorted(self.layout.directory.rglob("*.log"))
        return "\n".join(f"--- {log.name}\n" + "\n".join(log.read_text().splitlines()[-15:]) for log in logs)

    def _make_networks(self) -> None:
        layout = self.layout
        _ip("link", "add", layout.bridge, "type", "bridge")
        _ip("addr", "add", f"{layout.login_address}/24", "dev", layout.bridge)
        _ip("link", "set", layout.bridge, "up")
        for node in self.nodes:
            space = layout.namespace(node)
            _ip("netns", "add", space)
            _ip("link", "add", layout.link(node), "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", layout.link(node), "master", layout.bridge, "up")
            _ip("-n", space, "addr", "add", f"{layout.address(node)}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "link", "set", "lo", "up")

    def _sweep(self) -> None:
        """Remove whatever carries this cluster's names: processes, cgroups, networks, files."""
        cgroups = [path for node in self.nodes for path in _cgroups_of(node)]
        deadline = monotonic() + COMMAND_LIMIT_S
        while pids := {*marked(MARK, str(self.layout.directory)), *_inside(cgroups)}:
            if monotonic() > deadline:
                raise ClusterBrokenError(f"These processes do not end: {sorted(pids)}")
            for pid in pids:
                kill_and_wait(pid)
        # One is in use for as long as the system has not put away the last that was in it.
        while any(not _removed(top) for top in cgroups) and monotonic() < deadline:
            select.select([], [], [], PACE_S)
        for node in self.nodes:
            _ip("netns", "delete", self.layout.namespace(node), check=False)
            _ip("link", "delete", self.layout.link(node), check=False)
        _ip("link", "delete", self.layout.bridge, check=False)
        shutil.rmtree(self.layout.directory, ignore_errors=True)


def _path() -> str:
    """Debian keeps the daemons where an ordinary PATH does not look."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def _free_slot() -> tuple[IO[str], str]:
    """The first slot that nobody holds; the lock lasts as long as the file is open, so a dead run holds none."""
    for slot in SLOTS:
        file = (DIRECTORIES / f"cellwright-cluster-{slot}.lock").open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
        else:
            return file, slot
    raise ClusterBrokenError(f"All {len(SLOTS)} test clusters of this machine are in use")


def _ip(*arguments: str, check: bool = True) -> None:
    done = subprocess.run(
        ("/usr/bin/env", "ip", *arguments), env={"PATH": _path()}, capture_output=True, text=True, check=False
    )
    if check and done.returncode != 0:
        raise ClusterBrokenError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def _cgroups_of(node: str) -> list[Path]:
    """SLURM's names for a node's part of the tree: one in each hierarchy (v1), or one scope (v2)."""
    return [*CGROUPS.glob(f"*/slurm_{node}"), *CGROUPS.glob(f"**/{node}_slurmstepd.scope")]


def _removed(top: Path) -> bool:
    for path in sorted((path for path in [top, *top.rglob("*")] if path.is_dir()), reverse=True):
        with suppress(OSError):
            path.rmdir()
    return not top.exists()


def _inside(cgroups: list[Path]) -> Iterator[int]:
    for top in cgroups:
        for listing in top.rglob("cgroup.procs"):
            with suppress(OSError):
                yield from (int(pid) for pid in listing.read_text().split() if pid != "0")
