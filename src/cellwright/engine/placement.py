"""Which host a session goes to: one rule, and the port of the hosts it chooses among. What hosts there are is ``hosts``'s.

What the call asks for, else the setting ``host``, else what ``run_mode`` says: ``slurm`` where SLURM is configured.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Any, Literal, Protocol, TypeAlias

import anyio
import anyio.abc
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from cellwright.engine.records import SessionRecord
from cellwright.errors import HostCannot, KernelError, UnknownHost
from cellwright.hosts import HostTransport
from cellwright.hosts.protocol import KernelKind, Resources
from cellwright.plugins.registry import registry

__all__ = [
    "LOCAL",
    "DefaultHost",
    "HostInfo",
    "HostKind",
    "HostName",
    "HostProvider",
    "ShapeRequest",
    "inspect_content",
    "inspect_reply",
    "parse_host",
    "recorded_host",
    "refuse_foreign",
    "refuse_language",
    "server_and_kernel",
]

HostKind: TypeAlias = str
"""``local``, or the name of a plugin of the kind ``hosts``."""

LOCAL: Literal["local"] = "local"


@dataclass(frozen=True, slots=True)
class HostName:
    """A host as people write it: a kind, and which of that kind where there are several."""

    kind: HostKind
    which: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}:{self.which}" if self.which is not None else self.kind


def parse_host(name: str) -> HostName:
    """A host by the name that somebody asks for it by.

    Raises:
        UnknownHost: no host can have that name.
    """
    host = recorded_host(name)
    known = host.kind == LOCAL or registry().has("hosts", host.kind)
    if not known or (host.kind == LOCAL and ":" in name):
        kinds = ", ".join(f"`{one}`, `{one}:NAME`" for one in registry().names("hosts"))
        raise UnknownHost(
            f"There is no host {name!r}",
            hint=f"Hosts are `local`, {kinds}; `cellwright host list` lists them",
        )
    return host


def recorded_host(name: str) -> HostName:
    """A host as a session has it written down; what made hosts of its kind may be gone since."""
    kind, _, which = name.strip().partition(":")
    return HostName(kind, which or None)


@dataclass(frozen=True, slots=True)
class DefaultHost:
    """Where sessions go that name no host: to ``host``, or as ``run_mode`` says."""

    host: str = ""
    run_mode: HostKind = "auto"

    @property
    def relies_on_slurm(self) -> bool:
        """Whether it matters to such sessions if SLURM is configured."""
        return not self.host and self.run_mode == "auto"

    def host_name(self, requested: str | None, *, has_slurm: bool) -> HostName:
        """The host of a session for which ``requested`` was requested.

        Raises:
            UnknownHost: no host can have that name.
        """
        if name := requested or self.host:
            return parse_host(name)
        if self.run_mode != "auto":
            return HostName(self.run_mode)
        return HostName("slurm" if has_slurm else "local")


# The hosts of one kind, as the engine asks for them: a port that plugins of the kind ``hosts`` implement (see
# ``providers``).


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Text = Annotated[str | None, BeforeValidator(_text)]


class ShapeRequest(BaseModel):
    """What one allocation is to be beyond what the settings say; ``debug`` is a short one to try things out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    partition: str | None = None
    gres: str | None = None
    cpus: int | None = None
    mem: Text = None
    time: Text = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    modules: tuple[str, ...] | None = Field(default=None, max_length=50)
    nodes: int | None = None
    debug: bool = False

    @property
    def says_nothing(self) -> bool:
        return self == ShapeRequest()


@dataclass(frozen=True, slots=True)
class HostInfo:
    """What is to be known of a host by whoever chooses one."""

    name: str
    kind: HostKind
    state: str
    """In a word: ``ready``, ``idle`` (starts on need), ``pending``, ``away`` (out of reach), ``ending``, ``ended``."""
    detail: str = ""
    """The same in a sentence."""
    next_step: str | None = None
    kernels: int = 0
    capacity: int | None = None
    """How many kernels fit; None where that is not known."""
    resources: Resources | None = None
    expires_at: float | None = None
    job_id: int | None = None
    called: str | None = None
    """A shorter name that means it as well: ``slurm:default``."""
    directory: str | None = None
    """Where an allocation keeps its log and its journal."""


class HostProvider(Protocol):
    """The hosts of one kind. ``which`` is one of them, as it follows the kind in a host's name; None where none is named."""

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep up with the hosts while this runs."""
        ...

    async def unconfigured(self) -> str | None:
        """Why sessions that name no host do not go there; None where they may."""
        ...

    def check(self, which: str | None) -> None:
        """Refuse a host that there cannot be.

        Raises:
            UnknownHost: none is called that.
        """
        ...

    async def choose(self, which: str | None) -> str:
        """The name of the link to the host on which a session's next kernel is to start.

        Raises:
            HostPending: it waits for its turn.
            LimitReached: one more would be too many.
        """
        ...

    def transport(self, name: str) -> HostTransport:
        """How the host of a link is reached, also one that is gone."""
        ...

    def kernel(self, record: SessionRecord, language: str, *, main: bool, fresh: bool) -> KernelKind | None:
        """The kernel on another server that this machine's host is to use; None where a kernel of ours is started.

        A ``fresh`` one is empty, also where it is one that others have as well.
        """
        ...

    async def list(self, *, ended: bool = False) -> list[HostInfo]:
        """Every host there is; also those that ``ended``."""
        ...

    async def start(self, which: str | None, request: ShapeRequest) -> HostInfo:
        """Have a host; one that is there already is told."""
        ...

    async def stop(self, which: str | None) -> HostInfo:
        """Let a host go with its kernels.

        Raises:
            HostCannot: it is not ours to stop.
        """
        ...

    def resolve(self, which: str | None) -> str:
        """The whole name of the host that is meant.

        Raises:
            UnknownHost: there is none, or more than one could be meant.
        """
        ...

    async def wait(self, name: str, tell: Callable[[str], None]) -> None:
        """Wait until a host answers, or has ended and its sessions know; ``tell`` is called with each new state in words."""
        ...


# Sessions whose kernel lives on a Jupyter server: what can be asked of it there, and what is refused.

_ANSWER_KEY = "cellwright_told"

_SHIPPED = ("digests", "_inspection")

CANNOT = {
    "files": "its files are the server's, and only code sees them there",
    "packages": "packages are the server's own, and are installed where it runs",
    "checkpoints": "checkpoints need a kernel of ours, and this one is the server's",
    "sql": "SQL cells need a kernel of ours: use a library in Python there, or a session on host `local`",
    "values": "values are read out by kernels of ours only: print them, or save them where the server runs",
}


def server_and_kernel(which: str | None) -> tuple[str | None, str | None]:
    """What follows ``jupyter:``: a server by name, and behind a slash the id of a kernel there to attach to."""
    name, _, kernel_id = (which or "").partition("/")
    return name or None, kernel_id or None


def refuse_language(record: SessionRecord, language: str) -> None:
    """Refuse what no kernel of a session's server runs; what the server has is known once it has a kernel there.

    Raises:
        HostCannot: with the reason.
    """
    if language == "sql":
        refuse_foreign(record, "sql")
    offered = record.remote_languages
    if offered and language not in offered:
        raise HostCannot(
            f"Session {record.id} is on host {record.host}, which has no kernel for {language}; it has kernels for "
            f"{', '.join(offered)}",
            hint="Use one of those, or have the kernel installed where the server runs",
        )


def refuse_foreign(record: SessionRecord, what: str) -> None:
    """Refuse what a session on a Jupyter server cannot do; nothing happens on other hosts.

    Raises:
        HostCannot: with the reason.
    """
    if record.is_foreign:
        raise HostCannot(
            f"Session {record.id} is on host {record.host}: {CANNOT[what]}",
            hint="Do it in code there, or take the session to host `local`",
        )


def inspect_content(*, packages: bool) -> dict[str, Any]:
    """A request that any Python kernel answers: our own look at the namespace, as an expression that leaves no name."""
    home = files("cellwright_kernel")
    sources = {name: (home / f"{name}.py").read_text(encoding="utf-8") for name in _SHIPPED}
    program = _PROGRAM.format(sources=sources, packages=packages)
    expression = f"(lambda held: (exec({program!r}, held), held['told'])[1])({{'shell': get_ipython()}})"
    return {
        "code": "",
        "silent": True,
        "store_history": False,
        "allow_stdin": False,
        "user_expressions": {_ANSWER_KEY: expression},
    }


# The modules find each other under our package's name while they are made, and are gone again afterwards.
_PROGRAM = """
import json, sys, types
before = {{name: module for name, module in sys.modules.items() if name.split('.')[0] == 'cellwright_kernel'}}
try:
    package = sys.modules['cellwright_kernel'] = types.ModuleType('cellwright_kernel')
    package.__path__ = []
    for name, source in {sources!r}.items():
        module = sys.modules['cellwright_kernel.' + name] = types.ModuleType('cellwright_kernel.' + name)
        exec(source, module.__dict__)
    told = json.dumps(module.snapshot(shell.user_ns, shell.user_ns_hidden, packages={packages}))
finally:
    for name in [name for name in sys.modules if name.split('.')[0] == 'cellwright_kernel']:
        del sys.modules[name]
    sys.modules.update(before)
"""

# Code can answer in its kernel's name, with another shape, or with a text that is too deep or too long to be read.
_UNREADABLE = (AttributeError, KeyError, TypeError, ValueError, SyntaxError, RecursionError, MemoryError)


def inspect_reply(reply: dict[str, Any]) -> dict[str, Any]:
    """What the kernel told, in the form in which kernels of ours tell it.

    Raises:
        KernelError: it could not look.
    """
    try:
        answer = (reply.get("user_expressions") or {}).get(_ANSWER_KEY) or reply
        if answer.get("status") == "ok":
            return {"status": "ok", **json.loads(ast.literal_eval(answer["data"]["text/plain"]))}
        why = f"{answer.get('ename')}: {answer.get('evalue')}"
    except _UNREADABLE as error:
        why = f"the kernel's answer is unreadable: {error}"
    raise KernelError(f"The namespace could not be inspected: {why}")
