"""Questions to a session's live kernel: what it holds, what failed, what it read, what it costs, what could be typed.

Each question is a request that the kernel answers between cells; how its answer reads is ``introspection``'s.
"""

from __future__ import annotations

from typing import Any

from cellwright.engine.context import SessionContext
from cellwright.engine.environment import named_language, runtime_of
from cellwright.engine.foreign_kernels import inspect_content, inspect_reply, is_foreign
from cellwright.engine.introspection import (
    DIAGNOSE_REQUEST,
    FINGERPRINTS_REQUEST,
    INPUTS_REQUEST,
    INSPECT_REQUEST,
    PROFILE_REQUEST,
    Completion,
    Diagnosis,
    Fingerprint,
    Inputs,
    Inspection,
    Profile,
    completion_of,
    diagnosis_of,
    fingerprints_of,
    inputs_of,
    inspection_of,
    named_in,
    profile_of,
)
from cellwright.engine.kernel import SessionKernel
from cellwright.engine.workspace import SessionWorkspace
from cellwright.errors import KernelError

__all__ = ["KernelQueries"]

# A gigabyte on a slow disk.
_HASHING_TIMEOUT_S = 60.0


class KernelQueries:
    """Asks the kernel of one session."""

    def __init__(self, session: SessionContext, workspace: SessionWorkspace, kernel: SessionKernel) -> None:
        self._session = session
        self._workspace = workspace
        self._kernel = kernel

    @property
    def _answers(self) -> bool:
        """Whether the main kernel is a Python one of ours, which answers what others cannot."""
        return self._kernel.runs_python and not is_foreign(self._session.record)

    async def inspect(self, *, packages: bool = False) -> Inspection:
        """What the live kernel holds: variables, functions, modules, and where it runs.

        Raises:
            KernelBusy: a cell is running.
        """
        elsewhere = is_foreign(self._session.record)
        if runtime_of(self._session.language) not in (("python",) if elsewhere else ("python", "deno")):
            raise KernelError(
                f"A kernel of {self._session.language} cannot be inspected", hint="Run code that shows it"
            )
        if elsewhere:
            answer = await self._kernel.ask("execute_request", inspect_content(packages=packages))
            return inspection_of(inspect_reply(answer))
        return inspection_of(await self._kernel.ask(INSPECT_REQUEST, {"packages": packages}))

    async def diagnose(self) -> Diagnosis | None:
        """What the last execution in the live kernel raised; None if nothing, or where nobody can be asked.

        Raises:
            KernelBusy: a cell is running.
            KernelGone: it ended before it answered.
        """
        if self._session.record.kernel_id is None or not self._answers:
            return None
        return diagnosis_of(
            await self._kernel.ask(DIAGNOSE_REQUEST, {"project": self._session.record.project})
        )

    async def watch_inputs(self) -> None:
        """Have the kernel note from now on which files its code reads; nothing where it cannot."""
        await self.inputs(watch=True)

    async def inputs(self, source: str = "", *, watch: bool = False, packages: bool = False) -> Inputs:
        """Which files were read since this was last asked, and with ``packages`` what the code imported so far.

        ``source`` is what ran meanwhile: files that it names count too. Of files nothing is known unless somebody let
        it ``watch``, and of packages only those that ``source`` imports; nor anything of other languages than Python.

        Raises:
            KernelBusy: a cell is running.
        """
        if not self._answers:
            return Inputs()
        roots = dict.fromkeys(
            one for one in (str(self._workspace.cwd), self._session.record.project) if one is not None
        )
        content = {"watch": watch, "roots": list(roots), "packages": packages, **named_in(source)}
        return inputs_of(await self._kernel.ask(INPUTS_REQUEST, content, timeout_s=_HASHING_TIMEOUT_S))

    async def measure_next(self, cell_id: str, *, lines: bool = False) -> None:
        """Have the next execution measured, with ``lines`` where its time goes; nothing where the kernel cannot."""
        if self._answers:
            await self._kernel.ask(PROFILE_REQUEST, {"arm": {"cell": cell_id, "lines": lines}})

    async def profile(self) -> Profile:
        """What the last execution cost, where it was measured, and what the namespace holds.

        Raises:
            KernelBusy: a cell is running.
        """
        if not self._answers:
            return Profile()
        return profile_of(await self._kernel.ask(PROFILE_REQUEST, {}, timeout_s=_HASHING_TIMEOUT_S))

    async def fingerprints(self) -> dict[str, Fingerprint]:
        """What the kernel's variables can be compared by with those of another kernel.

        Raises:
            KernelBusy: a cell is running.
        """
        if not self._answers:
            return {}
        return fingerprints_of(await self._kernel.ask(FINGERPRINTS_REQUEST, {}, timeout_s=_HASHING_TIMEOUT_S))

    async def complete(
        self, code: str, cursor: int | None = None, *, language: str | None = None
    ) -> Completion:
        """What could stand at the cursor, in the notebook's language or another."""
        language = language or self._session.language
        content: dict[str, Any] = {"code": code, "cursor_pos": len(code) if cursor is None else cursor}
        if (named := named_language(language)) is not None and not is_foreign(self._session.record):
            content["language"] = named
        return completion_of(
            await self._kernel.ask("complete_request", content, side=self._kernel.secondary(language))
        )
