"""What ``cellwright doctor`` tells: tries what the engine needs, and finds what is missing and how to add it.

Apart from the command (see ``doctor``), since it loads the whole engine, and other commands should not wait for that.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
from jupyter_client.kernelspec import KernelSpecManager

from cellwright.assembly import open_engine
from cellwright.errors import CellwrightError
from cellwright.hosts.server import machine_memory
from cellwright.kernels import find_project_python
from cellwright.kernels.deno import find_deno
from cellwright.sandbox.gpus import find_gpus, gpu_memory
from cellwright.sandbox.policy import memory_share
from cellwright.sandbox.probe import try_isolation
from cellwright.settings import Settings, examine_settings, load_settings
from cellwright.settings.modelkeys import model_environment
from cellwright.slurm.commands import UNCONFIGURED, SlurmCommands

__all__ = ["EXTRAS", "Finding", "Verdict", "examine"]

Verdict = Literal["ok", "missing", "failed"]
_FILES_FOR_500_KERNELS = 8_192
_MEGABYTE = 1024**2
EXTRAS = (
    ("layers", ("uv",), "runs notebooks of projects whose .venv has no ipykernel"),
    (
        "data",
        ("ipywidgets", "matplotlib", "numpy", "pandas"),
        "what data work expects, in Cellwright's own interpreter",
    ),
    ("sql", ("duckdb", "pandas", "pyarrow"), "SQL cells in Cellwright's own interpreter"),
    ("connections", ("obstore", "psycopg", "pymysql"), "databases and stores that are named in settings"),
    ("charts", ("vl_convert",), "charts as pictures"),
    (
        "export",
        ("jupytext", "latex2mathml", "nbconvert", "nh3", "typst", "ziamath"),
        "notebooks as HTML, PDF, MyST and percent scripts",
    ),
    ("images", ("PIL",), "pictures scaled down before an agent reads them"),
    ("jupyter", ("httpx2", "pycrdt"), "kernels and shared documents on Jupyter servers"),
    ("slurm", ("cryptography",), "mutual TLS to allocations, where a site forbids the srun pipe"),
    ("lab", ("jupyterlab",), "JupyterLab on a session's live kernel"),
    (
        "web",
        ("itsdangerous", "jinja2", "latex2mathml", "mistune", "nh3", "pygments", "python_multipart"),
        "the page: `cellwright ui`",
    ),
    ("format", ("ruff",), "*Format* on the page: Python cells by ruff (TypeScript needs no more than Deno)"),
    ("calculator", ("pint",), "units in the calculator"),
    ("fetch", ("charset_normalizer",), "texts from the web that do not say what they are written in"),
    ("files", ("duckdb", "python_calamine"), "Parquet and Excel files as digests, large tables quickly"),
    ("agent", ("keyring", "pydantic_ai"), "the data agent: `cellwright ask`"),
    ("grok", ("pydantic_ai", "xai_sdk"), "xAI's own protocol for the data agent"),
    ("local", ("pydantic_ai", "xllamacpp"), "a model on this machine for the data agent"),
)
"""Each with the modules it brings, and what they are for. TypeScript's is tried by itself."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; ``fix`` is the command or step that fixes it."""

    what: str
    verdict: Verdict
    detail: str
    fix: str | None = None


def examine() -> Iterator[Finding]:
    """Everything that was looked at, as it is found."""
    yield Finding("interpreter", "ok", f"Python {sys.version.split()[0]} at {sys.executable}")
    for problem in examine_settings():
        yield Finding(f"setting {problem.where}", "failed", problem.message, problem.fix)
    try:
        settings = load_settings()
    except CellwrightError:  # said above
        return
    yield _project(settings.root)
    yield _fork_server(settings)
    yield _isolation(unsafe=settings.unsafe_no_sandbox, namespaces=settings.sandbox_namespaces)
    yield _gpus(settings.gpus)
    yield _storage(settings.storage)
    yield from _slurm(settings.slurm_command_timeout_s)
    yield _typescript()
    yield _kernelspecs()
    yield from _extras()
    yield _models()
    yield from _machine(settings.max_memory_fraction)
    for name, value in settings:
        if name.startswith(("max_", "cell_", "session_", "host_", "interrupt_", "start_")):
            yield Finding(f"limit {name}", "ok", _written(value))


def _written(value: Any) -> str:
    """A limit as people write it."""
    if value is None or isinstance(value, str):
        return value or "none"
    # No count is so large and so even: it is a size.
    if isinstance(value, int) and value and value % _MEGABYTE == 0:
        return f"{value // _MEGABYTE:,} MB"
    return f"{value:g}" if isinstance(value, float) else f"{value:,}"


def _project(root: Path) -> Finding:
    python = find_project_python(root)
    if python is None:
        return Finding(
            "project", "ok", f"no .venv above {root}: notebooks run on Cellwright's own interpreter"
        )
    return Finding("project", "ok", f"notebooks here run on {python}")


def _fork_server(settings: Settings) -> Finding:
    """Start a fork server for real, in an engine of its own, and run a cell on it."""

    async def measure() -> str:
        alone = settings.model_copy(update={"host_idle_s": 5.0, "standby_kernels": 1})
        async with open_engine(alone, ephemeral=True) as engine:
            begun = time.monotonic()
            path = _notebook_outside_projects(engine.settings.storage)
            # Whatever host sessions go to, it is this machine that is tried.
            # In a folder of its own: without namespaces code may not work beside what is the engine's.
            session = await engine.open(path, host="local", mode="private")
            execution = await (await session.execute_code("1 + 1")).wait()
            if not execution.ok:
                raise CellwrightError(f"1 + 1 ended as {execution.state}: {execution.reason}")
            first = time.monotonic() - begun
            begun = time.monotonic()
            await session.restart()
            await (await session.execute_code("1 + 1")).wait()
            return f"first result after {first:.2f} s cold, {time.monotonic() - begun:.3f} s warm"

    version = importlib.metadata.version("ipykernel")
    try:
        return Finding("fork server", "ok", f"ipykernel {version}; {anyio.run(measure)}")
    except CellwrightError as error:
        return Finding("fork server", "failed", error.message, error.hint or "reinstall cellwright")


def _isolation(*, unsafe: bool, namespaces: bool) -> Finding:
    """Go through the lockdown for real."""
    if unsafe:
        return Finding("isolation", "failed", "switched off by unsafe_no_sandbox", "unset it")
    found = try_isolation(namespaces=namespaces)
    detail = f"tier {found.tier}" + "".join(f"; {loss}" for loss in found.losses)
    if found.reasons:
        detail += f"; because: {'; '.join(found.reasons)}"
    if found.tier == "none":
        fix = "; ".join((*found.remedies, "or run unconfined with --unsafe-no-sandbox"))
        return Finding("isolation", "failed", detail, fix)
    return Finding("isolation", "ok", detail, "; ".join(found.remedies) or None)


def _gpus(choice: str) -> Finding:
    """The GPUs that sessions on this machine may use, with what their drivers tell of them."""
    found = find_gpus(choice, os.environ)
    if not found:
        why = "switched off by gpus" if choice == "off" else "none here that this user may use"
        return Finding("gpus", "ok", why)
    told = gpu_memory(found)
    detail = "; ".join(f"{name} ({told[name]})" if name in told else name for name in found.names)
    return Finding("gpus", "ok", f"{detail}: code in sessions drives them (gpus)")


def _notebook_outside_projects(storage: Path) -> Path:
    """A notebook outside any project, so that our own interpreter is the one that is tried."""
    path = storage / "doctor.ipynb"
    path.write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    return path


def _storage(storage: Path) -> Finding:
    existing = next(parent for parent in (storage, *storage.parents) if parent.exists())
    if not os.access(existing, os.W_OK):
        fix = f"make {existing} writable, or set CELLWRIGHT_STORAGE to a directory that is"
        return Finding("storage", "failed", f"{storage} cannot be written", fix)
    free = shutil.disk_usage(existing).free
    return Finding("storage", "ok", f"{storage}, {free / 1e9:.1f} GB free")


def _slurm(timeout_s: float) -> Iterator[Finding]:
    """Where the client is, whether there is a cluster behind it."""
    if (sbatch := shutil.which("sbatch")) is None:
        return
    if anyio.run(SlurmCommands(os.environ, os.getuid(), timeout_s).is_configured):
        yield Finding("slurm", "ok", f"sbatch at {sbatch}")
    else:
        detail = f"{UNCONFIGURED}: {sbatch} finds no configuration"
        yield Finding("slurm", "missing", detail, "set SLURM_CONF, to have allocations")


def _typescript() -> Finding:
    try:
        return Finding("typescript", "ok", f"Deno at {find_deno()}")
    except CellwrightError as error:
        return Finding("typescript", "missing", error.message, error.hint)


def _kernelspecs() -> Finding:
    names = sorted(KernelSpecManager().find_kernel_specs())
    if not names:
        fix = "python -m ipykernel install --user"
        return Finding("kernelspecs", "missing", "none installed; Python needs none, other languages do", fix)
    return Finding("kernelspecs", "ok", ", ".join(names))


def _extras() -> Iterator[Finding]:
    for extra, modules, purpose in EXTRAS:
        lacking = [name for name in modules if not (importlib.util.find_spec(name) or shutil.which(name))]
        # A part may have come with another extra.
        detail = f"{purpose}; lacks {', '.join(lacking)}" if 0 < len(lacking) < len(modules) else purpose
        fix = f"pip install 'cellwright[{extra}]'" if lacking else None
        yield Finding(f"extra {extra}", "missing" if lacking else "ok", detail, fix)


def _models() -> Finding:
    """Whose models can be asked, by the variables that hold a key; what a keyring has is not looked at."""
    named = [name for name in model_environment() if name.endswith("_KEY")]
    if named:
        return Finding("models", "ok", f"keys in {', '.join(named)}")
    fix = "set OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or XAI_API_KEY, or name a --model"
    return Finding("models", "missing", "no variable holds a key for `cellwright ask`", fix)


def _machine(most_memory: float) -> Iterator[Finding]:
    memory = machine_memory()
    over = memory.fraction > most_memory
    detail = (
        f"{memory.fraction:.0%} in use, nothing starts above {most_memory:.0%}; a session's share (auto) is "
    )
    detail += _written(memory_share(memory.total, memory.used))
    yield Finding("memory", "failed" if over else "ok", detail, "free memory" if over else None)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    few = hard != resource.RLIM_INFINITY and hard < _FILES_FOR_500_KERNELS
    detail = f"at most {hard if hard != resource.RLIM_INFINITY else 'unlimited'} open files"
    fix = (
        f"raise the hard limit (ulimit -Hn {_FILES_FOR_500_KERNELS}) for hundreds of sessions"
        if few
        else None
    )
    yield Finding("open files", "missing" if few else "ok", detail, fix)
