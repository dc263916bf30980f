"""Starts any kernel that Jupyter knows by name, from cold. The second way, for other languages (see forkserver).

Such a kernel runs none of our code: its output is not capped at its source, and it cannot be inspected.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cellwright.errors import KernelStartError
from cellwright.kernels._confinement import Isolation
from cellwright.kernels._interpreters import LibraryCaches
from cellwright.kernels._resources import INSIDE, KernelCgroup, create_connection
from cellwright.kernels._spawn import (
    KernelStart,
    Spawner,
    Start,
    confined_start,
    refuse_without_network,
)
from cellwright.kernels.client import KernelClient
from cellwright.kernels.kernel import KernelLaunch
from cellwright.kernels.programs import own_script
from cellwright.sandbox.policy import SOCKETS

__all__ = ["KernelspecLauncher", "installed_kernelspecs"]

INSTALL_COMMANDS = {
    "python3": "python -m pip install ipykernel && python -m ipykernel install --user",
    "ir": "R -e 'install.packages(\"IRkernel\"); IRkernel::installspec()'",
    "deno": "deno jupyter --install",
    "julia": "julia -e 'using Pkg; Pkg.add(\"IJulia\")'",
}


@dataclass(frozen=True, slots=True)
class Needs:
    """What kernels of one program need that others do not."""

    tcp_only: bool = False
    """It cannot listen on unix sockets (see ``cellwright_kernel._ferry``)."""
    own_memory: int | None = None
    """Bytes that it reserves for itself; they come on top of the limit of each process."""


# V8 reserves the places of its heaps and of compiled code before it uses them.
NEEDS = {"deno": Needs(tcp_only=True, own_memory=1 << 30)}
PLACEHOLDER = re.compile(r"\{([A-Za-z0-9_]+)\}")


def installed_kernelspecs() -> dict[str, Path]:
    """The names of installed kernels and where each is described."""
    from jupyter_client.kernelspec import KernelSpecManager  # most hosts need none of it

    return {name: Path(where) for name, where in KernelSpecManager().find_kernel_specs().items()}


class KernelspecLauncher(Spawner):
    """Spawns kernels of one installed kernelspec. Output limits are the engine's to keep."""

    _spec: Any
    _prepared: tuple[Path, ...] = ()
    """Caches of its libraries."""

    def __init__(
        self, name: str, folder: str = "", *, caches: LibraryCaches | None = None, **options: Any
    ) -> None:
        """``folder`` is where its ``kernel.json`` lies, unless it is installed."""
        super().__init__(name, **options)
        self._folder = folder
        self._caches = caches

    async def _find(self) -> None:
        self._spec = _find_spec(self.name, self._folder)
        if self._spec.language == "python" and self._caches is not None and self._isolation is not None:
            # Awaited: none of our code is in such a kernel that would hold back a notice of its own making them.
            python = _command(self._spec.argv, {})[0]
            self._prepared = await self._caches.make(Path(python), _site_packages(python))

    def _start(self, launch: KernelLaunch, isolation: Isolation | None, cgroup: KernelCgroup) -> KernelStart:
        if isolation is None:
            return self._bare(self._spec, launch)
        return self._confined(self._spec, launch, isolation, cgroup)

    def _bare(self, spec: Any, launch: KernelLaunch) -> KernelStart:
        connection = create_connection(launch.directory)
        values = {"connection_file": str(connection.file), "resource_dir": spec.resource_dir}
        program = _command(spec.argv, values)
        if NEEDS.get(_name_of(program), Needs()).tcp_only:
            ferry = [sys.executable, "-I", "-S", own_script("__main__.py"), "--ferry"]
            program = [*ferry, values["connection_file"], *program]
        environment = {**self._environment, **spec.env, **launch.environment}
        client = KernelClient(connection, is_ours=False)
        start = Start(program, environment, launch.cwd)
        return KernelStart(start, client, _interrupt_by(spec))

    def _confined(
        self, spec: Any, launch: KernelLaunch, isolation: Isolation, cgroup: KernelCgroup
    ) -> KernelStart:
        if launch.workspace is None:
            raise KernelStartError("A confined kernel needs a workspace")
        sandboxed = isolation.stands_by
        needs = NEEDS.get(_name_of(spec.argv), Needs())
        if needs.tcp_only:
            refuse_without_network(self.name, isolation)
        connection = create_connection(launch.directory, seen_at=SOCKETS if sandboxed else None)
        file = f"{SOCKETS}/{INSIDE}" if sandboxed else str(connection.file)
        program = _command(spec.argv, {"connection_file": file, "resource_dir": spec.resource_dir})
        environment = {**launch.environment, **spec.env}
        paths = [
            *_program_paths(program[0]),
            *environment.get("PYTHONPATH", "").split(":"),
            spec.resource_dir,
        ]
        readable = isolation.readable([path for path in paths if Path(path).is_absolute()])
        plan = isolation.plan(
            readable, environment, launch.directory, launch.workspace, known=True, shared=launch.shared
        )
        plan["environment"] |= spec.env
        if needs.own_memory is not None:
            plan["limits"]["own_memory"] = needs.own_memory
        client = KernelClient(connection, is_ours=False)
        caches = isolation.seen_caches(self._prepared)
        more = {"tcp_only": needs.tcp_only, "connection_file": file, "caches": caches}
        start = confined_start(Start(program, {}, launch.cwd), plan, launch, cgroup, **more)
        return KernelStart(start, client, _interrupt_by(spec))


def _interrupt_by(spec: Any) -> Literal["message", "signal"]:
    return "message" if spec.interrupt_mode == "message" else "signal"


def _name_of(program: list[str]) -> str:
    return Path(program[0]).name


def _program_paths(program: str) -> list[str]:
    """What a program needs to see of itself where it is not one of the system's."""
    if program == sys.executable:
        return [sys.prefix, sys.base_prefix]
    found = shutil.which(program)
    if found is None:
        return []
    return [str(path.parent.parent) for path in (Path(found), Path(found).resolve())]


def _site_packages(python: str) -> list[str]:
    found = (Path(prefix).glob("lib/python3*/site-packages") for prefix in _program_paths(python))
    return [str(path) for paths in found for path in paths]


def _find_spec(name: str, folder: str) -> Any:
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager, NoSuchKernel  # as above

    if folder:
        try:
            return KernelSpec.from_resource_dir(folder)
        except (OSError, ValueError) as error:
            raise KernelStartError(
                f"The kernel of {name} cannot be started: {folder}/kernel.json cannot be read: {error}",
                hint="Install the plugin of that language again",
            ) from None
    try:
        return KernelSpecManager().get_kernel_spec(name)
    except NoSuchKernel:
        installed = ", ".join(sorted(installed_kernelspecs())) or "none"
        command = INSTALL_COMMANDS.get(name)
        raise KernelStartError(
            f"There is no kernel named {name!r}; python, sql, typescript and javascript need none, and installed are: "
            f"{installed}",
            hint=f"Install it with `{command}`"
            if command
            else "See the kernel's own documentation to install it",
        ) from None


def _command(argv: list[str], values: Mapping[str, str]) -> list[str]:
    command = [
        PLACEHOLDER.sub(lambda match: values.get(match.group(1), match.group(0)), part) for part in argv
    ]
    # As Jupyter does: a kernelspec that says just "python" means the one it is installed in.
    if command and re.fullmatch(r"python(3(\.\d+)?)?", command[0]):
        command[0] = sys.executable
    return command
