"""The kinds of kernel that an engine can ask its host for. Part of the ``protocol``."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from cellwright.kernels.jupyter import JupyterServer

__all__ = [
    "DenoKernel",
    "JupyterKernel",
    "JupyterServer",
    "KernelKind",
    "KernelspecKernel",
    "PythonKernel",
    "Tagged",
]


class Tagged(msgspec.Struct, frozen=True, tag_field="t", omit_defaults=True):
    """A message that says its own kind."""


class PythonKernel(Tagged, frozen=True, tag="python"):
    """An ipykernel from a fork server; ``python`` is the project's interpreter, or none for the host's own."""

    python: str | None = None


class DenoKernel(Tagged, frozen=True, tag="deno"):
    """TypeScript and JavaScript, by our own driver."""


class KernelspecKernel(Tagged, frozen=True, tag="kernelspec"):
    """Whatever an installed Jupyter kernelspec starts."""

    name: str


class JupyterKernel(Tagged, frozen=True, tag="jupyter"):
    """A kernel on a Jupyter server: a new one of the kernelspec ``name``, or one that is there already."""

    server: JupyterServer
    name: str = ""
    """Without one, a kernelspec that fits the language."""
    language: str = "python"
    path: str | None = None
    """The notebook there that it is started for, so that people who open it find the same kernel."""
    existing: str | None = None
    """The id of a kernel on the server to attach to."""
    session_id: str | None = None
    """That of an earlier connection, whose missed output the server may still have."""
    ours: bool = False
    """Whether the existing one was started for this session, and ends with it."""
    fresh: bool = False
    """Whether it has to be empty: one that is there already is restarted by its server first."""


KernelKind: TypeAlias = PythonKernel | DenoKernel | KernelspecKernel | JupyterKernel
