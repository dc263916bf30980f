"""Which kernel runs a language, and what it finds in its environment. Pure; starts nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cellwright.hosts.protocol import DenoKernel, KernelKind, KernelspecKernel, PythonKernel
from cellwright.kernels import find_project_python
from cellwright.notebook import Document

__all__ = ["kernel_environment", "kernel_kind", "named_language", "runtime_of"]

# Languages that share a kernel, by what that is called. The first of each is what it takes code for unless told.
_RUNTIMES = {"python": "python", "sql": "python", "typescript": "deno", "javascript": "deno"}
_UNNAMED = frozenset({"python", "typescript"})
# Kernelspecs by the language they are known for; any other language is taken as the kernelspec's own name.
_KERNELSPECS = {"r": "ir", "julia": "julia", "bash": "bash"}
# Ours, and one that makes every import in a kernel four times as slow.
_LEFT_OUT_PREFIX = "CELLWRIGHT_"
_LEFT_OUT = frozenset({"PYTHONDONTWRITEBYTECODE"})


def runtime_of(language: str) -> str:
    """What the kernel that runs a language is called; languages that share one have the same."""
    return _RUNTIMES.get(language, language)


def named_language(language: str) -> str | None:
    """What a kernel has to be told of a run's language; nothing where it knows."""
    return language if language in _RUNTIMES and language not in _UNNAMED else None


def kernel_kind(document: Document, language: str, directory: Path) -> KernelKind:
    """How to start the kernel for a language: Python from the project's interpreter, others by kernelspec."""
    match runtime_of(language):
        case "python":
            python = find_project_python(directory)
            return PythonKernel(str(python) if python is not None else None)
        case "deno":
            return DenoKernel()
        case _:
            return KernelspecKernel(_kernelspec(document, language))


def _kernelspec(document: Document, language: str) -> str:
    spec = document.metadata.get("kernelspec") or {}
    if spec.get("name") and str(spec.get("language", language)).lower() == language:
        return str(spec["name"])
    return _KERNELSPECS.get(language, language)


def kernel_environment(environment: Mapping[str, str], kind: KernelKind) -> dict[str, str]:
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
