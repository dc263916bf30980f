"""What a test cluster is made of, as plain data: names, addresses, ports, and the files that SLURM reads.

Starts nothing (see cluster). Every name, address and port follows from the cluster's slot, so that as many clusters as
there are slots stand on one machine side by side.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

SLOTS = "abcdefgh"
NODES = 3
CPUS = 4
MEMORY_MB = 4000
# The same for all: each node has its own network.
SLURMD_PORT = 26900
# After this long without a word a node is down, and its jobs with it. A machine that stands still for less loses none.
SLURMD_TIMEOUT_S = 60
KILL_WAIT_S = 60


@dataclass(frozen=True, slots=True)
class Layout:
    """One cluster's names. ``slot`` is a letter of ``SLOTS``, ``directory`` holds all its files."""

    slot: str
    directory: Path

    @property
    def nodes(self) -> tuple[str, ...]:
        """Also names the nodes' cgroups, which is why no two clusters may share one."""
        return tuple(f"{self.slot}{number}" for number in range(1, NODES + 1))

    @property
    def bridge(self) -> str:
        return f"cwbridge-{self.slot}"

    @property
    def login_address(self) -> str:
        return f"{self._network}.254"

    @property
    def configuration(self) -> Path:
        return self.directory / "slurm.conf"

    @property
    def munge_socket(self) -> Path:
        return self.directory / "munge" / "socket"

    def address(self, node: str) -> str:
        return f"{self._network}.{self.nodes.index(node) + 1}"

    def namespace(self, node: str) -> str:
        return f"cellwright-{node}"

    def link(self, node: str) -> str:
        """The login's end of the node's only cable."""
        return f"cwlink-{node}"

    @property
    def _network(self) -> str:
        return f"10.86.{SLOTS.index(self.slot)}"

    @property
    def _controller_port(self) -> int:
        return 26800 + SLOTS.index(self.slot)


def slurm_configuration(layout: Layout) -> str:
    """``slurm.conf``: everything as quick as SLURM allows, memory enforced, ``high`` preempts ``main``."""
    here = layout.directory
    nodes = f"{layout.slot}[1-{NODES}]"
    lines = [
        f"ClusterName=cellwright-{layout.slot}",
        f"SlurmctldHost={socket.gethostname().split('.')[0]}({layout.login_address})",
        f"SlurmctldPort={layout._controller_port}",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        f"AuthInfo=socket={layout.munge_socket}",
        "CredType=cred/munge",
        f"SlurmctldPidFile={here}/controller.pid",
        f"SlurmdPidFile={here}/%n.pid",
        f"SlurmdSpoolDir={here}/spool-%n",
        f"StateSaveLocation={here}/state",
        f"SlurmctldLogFile={here}/controller.log",
        f"SlurmdLogFile={here}/%n.log",
        "JobCompType=jobcomp/filetxt",
        f"JobCompLoc={here}/completions.txt",
        # A node that was lost and came back takes work again by itself.
        "ReturnToService=2",
        "SlurmdParameters=config_overrides",
        "SchedulerType=sched/backfill",
        "SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        # Only these two hold a step to its memory.
        "ProctrackType=proctrack/cgroup",
        "TaskPlugin=task/cgroup",
        "JobAcctGatherType=jobacct_gather/linux",
        "JobAcctGatherFrequency=2",
        "MpiDefault=none",
        "GresTypes=gpu",
        "InactiveLimit=0",
        # What is told to end has this long to say its last: a machine that stands still for less cuts nothing off.
        f"KillWait={KILL_WAIT_S}",
        "MinJobAge=300",
        "SlurmctldTimeout=30",
        f"SlurmdTimeout={SLURMD_TIMEOUT_S}",
        "MessageTimeout=15",
        "TCPTimeout=2",
        "PreemptType=preempt/partition_prio",
        # Who said --no-requeue is cancelled instead.
        "PreemptMode=REQUEUE",
        "JobRequeue=1",
        "DefMemPerCPU=500",
        "PropagateResourceLimitsExcept=ALL",
    ]
    lines += [_node(layout, node) for node in layout.nodes]
    common = f"Nodes={nodes} MaxTime=INFINITE DefaultTime=60 State=UP"
    lines += [
        f"PartitionName=main Default=YES PriorityTier=1 {common}",
        f"PartitionName=high PriorityTier=10 PreemptMode=OFF {common}",
    ]
    return "\n".join(lines) + "\n"


def _node(layout: Layout, node: str) -> str:
    """The first node claims GPUs, which stand for nothing, so that a request for one can be told from others."""
    first = node == layout.nodes[0]
    return (
        f"NodeName={node} NodeHostname={node} NodeAddr={layout.address(node)} Port={SLURMD_PORT} "
        f"CPUs={CPUS} CoresPerSocket={CPUS} RealMemory={MEMORY_MB} State=UNKNOWN "
        + ("Gres=gpu:2 Features=fast" if first else "Features=plain")
    )


def gres_configuration(layout: Layout) -> str:
    """SLURM counts GPUs by their device files, and looks no further than that there is one."""
    devices = ("/dev/null", "/dev/zero")
    return "".join(f"NodeName={layout.nodes[0]} Name=gpu File={device}\n" for device in devices)


def cgroup_configuration(*, version: int) -> str:
    """Nothing is mounted and systemd is not asked: a container has neither to give."""
    lines = [
        f"CgroupPlugin=cgroup/v{version}",
        "CgroupMountpoint=/sys/fs/cgroup",
        "CgroupAutomount=no",
        "ConstrainRAMSpace=yes",
        "ConstrainSwapSpace=no",
        "ConstrainCores=no",
        "ConstrainDevices=no",
    ]
    if version == 2:
        lines.append("IgnoreSystemd=yes")
    return "\n".join(lines) + "\n"
