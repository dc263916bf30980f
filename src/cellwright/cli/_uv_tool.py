"""The lasting copy of a ``cellwright`` that runs from uv's cache (``uvx cellwright …``): the same release as uv's tool.

A client's settings must not name a path in a cache. The daemon and kernels would not outlive ``uv cache prune``, either,
so the entry is no ``uvx`` line: uv installs the release as a tool, and the client is given that tool's path.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cellwright.cli._terminal import ProgressLine
from cellwright.errors import CellwrightError

__all__ = ["NoLastingCopy", "is_in_cache", "lasting_executable"]

_NAME = "cellwright"
# Such as `pydantic-ai-slim[openai]>=2; extra == "agent"`.
_REQUIREMENT = re.compile(
    r"\s*(?P<name>[\w.-]+)\s*(?:\[(?P<extras>[^\]]*)\])?[^;]*;.*\bextra\s*==\s*['\"](?P<extra>[\w.-]+)['\"]"
)


class NoLastingCopy(CellwrightError):
    """This release cannot be installed where it stays."""

    code = "no_lasting_copy"


def is_in_cache(prefix: Path) -> bool:
    """Whether an environment lies in a cache, by the tag that caches carry; an environment's own tag says nothing."""
    return any((parent / "CACHEDIR.TAG").is_file() for parent in prefix.parents)


def lasting_executable(*, install: bool) -> Path:
    """The path of this release as uv's tool; installs it where it is not there yet, unless ``install`` is false.

    Raises:
        NoLastingCopy: there is no uv, it failed, or another release has the place.
    """
    distribution = importlib.metadata.distribution(_NAME)
    wanted = _requirement(distribution)
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        raise NoLastingCopy(
            f"{sys.prefix} is a cache, which may be emptied at any time, and there is no uv to install a lasting copy",
            hint=f"Run `pip install '{_NAME}=={distribution.version}'` in an environment that stays, and its "
            "`cellwright install`",
        )
    command = Path(_asked(uv, "tool", "dir", "--bin")) / _NAME
    # Not the command's link: `uvx`, once the tool is there, runs it by this path, and finds the entry as it wrote it.
    target = Path(_asked(uv, "tool", "dir")) / _NAME / "bin" / _NAME
    for found in (command, target):
        if found.exists():
            _refuse_another(found, distribution.version)
    if install and not target.exists():
        with ProgressLine(f"installing {_NAME} {distribution.version} as a tool of uv"):
            _asked(uv, "tool", "install", "--python", sys.executable, wanted)
        _refuse_another(target, distribution.version)
    return target


def _refuse_another(target: Path, version: str) -> None:
    """Leave another release where it is: somebody works with it."""
    done = subprocess.run([target, "--version"], capture_output=True, text=True, check=False)
    found = done.stdout.strip() or "unknown"
    if found != version:
        raise NoLastingCopy(
            f"{target} is cellwright {found}, and this is {version}; it was left as it is",
            hint=f"`{target} install` registers that one; `uv tool install --force {_NAME}=={version}` replaces it",
        )


def _asked(uv: str, *arguments: str) -> str:
    """What uv answers.

    Raises:
        NoLastingCopy: it failed.
    """
    done = subprocess.run([uv, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or [f"code {done.returncode}"]
        raise NoLastingCopy(
            f"`uv {' '.join(arguments)}` failed: {said[0]}", hint="Run it by hand to see all of it"
        )
    return done.stdout.strip()


def _requirement(distribution: importlib.metadata.Distribution) -> str:
    """This release as a requirement, with the extras that are here, and from where it came if not from an index."""
    extras = ",".join(_extras(distribution))
    name = f"{_NAME}[{extras}]" if extras else _NAME
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if "vcs_info" in origin:
        return f"{name} @ {origin['vcs_info']['vcs']}+{origin['url']}@{origin['vcs_info']['commit_id']}"
    return f"{name} @ {origin['url']}" if "url" in origin else f"{name}=={distribution.version}"


def _extras(distribution: importlib.metadata.Distribution) -> list[str]:
    """The extras of which everything is installed: nobody writes down which were asked for."""
    named = {found["extra"] for line in distribution.requires or () if (found := _REQUIREMENT.match(line))}
    return sorted(extra for extra in named if _is_installed(_NAME, (extra,)))


def _is_installed(name: str, extras: Sequence[str]) -> bool:
    """Whether a distribution is here, with what these of its extras need."""
    try:
        lines = importlib.metadata.distribution(name).requires or ()
    except importlib.metadata.PackageNotFoundError:
        return False
    needed = [found for line in lines if (found := _REQUIREMENT.match(line)) and found["extra"] in extras]
    return all(_is_installed(one["name"], re.findall(r"[\w.-]+", one["extras"] or "")) for one in needed)
