"""Runs the commands of ``!`` and ``%pip`` without a terminal, and says where packages come from.

A sandbox has no terminals, and a program that thinks it has one draws bars and colours that nobody reads.
"""

from __future__ import annotations

import codecs
import contextlib
import importlib.metadata
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["PackageAdvice", "PackageNotInstalled", "run_command"]

READ_BYTES = 1 << 16

# How long a command's output is read on once the command has ended: what it left running may hold it open.
QUIET_S = 0.1

STOP_GRACE_S = 1.0

# What stands between two commands, but in no quotes.
_SEPARATORS = re.compile(
    r"""((?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^'"\\;\n&|]|&(?!&)|\|(?!\|))+)|(&&|\|\||;|\n)""", re.DOTALL
)

_HERE_DOCUMENT = "<<"

_INSTALLERS = re.compile(
    r"\s*(?:sudo\s+)?(?:(?:'[^']*/|\S*/)?python[\d.]*'?\s+-m\s+)?(?:\S*/)?(?:uv\s+)?(?:pip[\d.]*|conda|mamba|micromamba|uv)\s+"
    r"(?:-\S+\s+)*(?:install|add)\b(?P<arguments>.*)",
    re.DOTALL,
)

# Options of pip's whose next word is a value, and no package.
_WITH_VALUE = re.compile(
    r"-[rcifenp]|--(requirement|constraint|index-url|extra-index-url|find-links|target|prefix|root|editable|name"
    r"|channel|platform|python-version|trusted-host|proxy|timeout)"
)


# What data work expects, by the extra of Cellwright's that brings it to its own interpreter.
_EXTRAS = {
    "ipywidgets": "data",
    "matplotlib": "data",
    "numpy": "data",
    "pandas": "data",
    "duckdb": "sql",
    "pyarrow": "sql",
}


class PackageNotInstalled(Exception):
    """A cell tried to install packages by itself."""

    def _render_traceback_(self) -> list[str]:  # IPython's
        return [f"{type(self).__name__}: {self}"]


class PackageAdvice:
    """Knows which packages may be installed for this session, and tells code that misses one."""

    def __init__(self) -> None:
        self.approved: Mapping[str, str] | None = None
        """Approved packages by the name that they are imported by; None where code may install what it likes."""

    def add_to(self, error: BaseException | None) -> None:
        """Say in the error how the missing module comes, where it is one of an approved package."""
        if not isinstance(error, ModuleNotFoundError) or type(error.name) is not str:
            return
        name = error.name.replace("_", "-").lower()
        package = (self.approved or {}).get(name)
        if package is not None and "package_install" not in str(error):
            error.msg = f"{error.msg}. It is approved: {_call([package])} installs it"
        extra = _EXTRAS.get(name)
        if (
            extra is not None
            and f"cellwright[{extra}]" not in str(error)
            and _installed("cellwright") is not None
        ):
            error.msg = f"{error.msg}. For every session: pip install 'cellwright[{extra}]'"

    def without_installs(self, command: str) -> str:
        """The command, less installations of what is there already.

        Raises:
            PackageNotInstalled: it installs something else.
        """
        parts = list(_SEPARATORS.finditer(command))
        # Of what is quoted in a way that is not understood here, nothing is said.
        if (
            self.approved is None
            or _HERE_DOCUMENT in command
            or sum(len(part[0]) for part in parts) < len(command)
        ):
            return command
        return "".join(_checked(part[1]) if part[1] else part[0] for part in parts)


def _checked(command: str) -> str:
    found = _INSTALLERS.match(command)
    if found is None:
        return command
    wanted = _names(found["arguments"])
    missing = [name for name in wanted if _installed(name) is None]
    if missing or not wanted:
        names = ", ".join(missing) or "these packages"
        raise PackageNotInstalled(
            f"Code cannot install {names}. {_call(missing or ['NAME'])} installs approved packages, which can be "
            f"imported at once (in a terminal: cellwright packages add SESSION {' '.join(missing) or 'NAME'})"
        )
    told = "\n".join(f"Requirement already satisfied: {_installed(name)}" for name in wanted)
    return f"printf '%s\\n' {shlex.quote(told)}"


def _call(packages: Iterable[str]) -> str:
    return f"package_install({json.dumps(list(packages))})"


def _names(arguments: str) -> list[str]:
    """The packages among an installer's arguments, with their versions."""
    try:
        words = iter(shlex.split(arguments, comments=True))
    except ValueError:  # a quote that is not closed
        return []
    found: list[str] = []
    for word in words:
        if _WITH_VALUE.fullmatch(word):
            next(words, None)
        elif word.startswith((">", "<", "2>", "|", "&")):
            break
        elif word and not word.startswith("-"):
            found.append(word)
    return found


def _installed(requirement: str) -> str | None:
    """What is installed of a package, if it is there in a version that was asked for."""
    from packaging.requirements import InvalidRequirement, Requirement  # ipykernel brings it; rarely needed

    try:
        wanted = Requirement(requirement)
        version = importlib.metadata.version(wanted.name)
    except (InvalidRequirement, importlib.metadata.PackageNotFoundError):
        return None
    # What an extra brings is not looked at.
    if wanted.url or wanted.extras or not wanted.specifier.contains(version, prereleases=True):
        return None
    return f"{wanted.name} {version}"


def run_command(command: str) -> int:
    """Run a command of the shell, show what it writes as it comes, and return its exit code; negative for a signal."""
    shell = os.environ.get("SHELL") or "/bin/sh"
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [shell, "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
    )
    try:
        _show(process)
        code = process.wait()
    except BaseException:
        # The signal of an interrupt has reached it too: it may still say something.
        _end(process)
        raise
    # A shell tells of a program's signal so.
    return code if code <= 128 else 128 - code


def _show(process: subprocess.Popen[bytes]) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    out: Any = process.stdout
    with out:
        poller = select.poll()
        poller.register(out, select.POLLIN)
        ended_at: float | None = None
        while ended_at is None or time.monotonic() < ended_at + QUIET_S:
            if ended_at is None and process.poll() is not None:
                ended_at = time.monotonic()
            if not poller.poll(QUIET_S * 1_000):
                continue
            chunk = os.read(out.fileno(), READ_BYTES)
            sys.stdout.write(decoder.decode(chunk, final=not chunk))
            sys.stdout.flush()
            if not chunk:
                break


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_GRACE_S)
            return
