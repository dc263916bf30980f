"""Which kernel a notebook gets and what it finds in its environment. Pure; starts nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cellwright.hosts.protocol import KernelspecKernel, PythonKernel
from cellwright.kernels import find_project_python
from cellwright.notebook import Document
from cellwright.notebook.languages import notebook_language

__all__ = ["kernel_environment", "kernel_kind", "notebook_language"]

# Kernelspecs by the language they are known for; any other language is taken as the kernelspec's own name.
_KERNELSPECS = {"r": "ir", "julia": "julia", "bash": "bash"}
# Ours, and one that makes every import in a kernel four times as slow.
_LEFT_OUT_PREFIX = "CELLWRIGHT_"
_LEFT_OUT = frozenset({"PYTHONDONTWRITEBYTECODE"})


def kernel_kind(document: Document, language: str, directory: Path) -> PythonKernel | KernelspecKernel:
    """How to start the kernel for a notebook: Python from the project's interpreter, others by kernelspec."""
    if language == "python":
        python = find_project_python(directory)
        return PythonKernel(str(python) if python is not None else None)
    spec = document.metadata.get("kernelspec") or {}
    if spec.get("name") and str(spec.get("language", language)).lower() == language:
        return KernelspecKernel(str(spec["name"]))
    return KernelspecKernel(_KERNELSPECS.get(language, language))


def kernel_environment(
    environment: Mapping[str, str], kind: PythonKernel | KernelspecKernel
) -> dict[str, str]:
    """The environment of a kernel: the engine's, less what is the engine's own, with the project's venv first."""
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith(_LEFT_OUT_PREFIX) and name not in _LEFT_OUT
    }
    if isinstance(kind, PythonKernel) and kind.python is not None:
        scripts = Path(kind.python).parent
        kept["VIRTUAL_ENV"] = str(scripts.parent)
        kept["PATH"] = f"{scripts}:{kept['PATH']}" if kept.get("PATH") else str(scripts)
    return kept
