"""The next step after a script that failed: a package to name, a directory to work in. Pure; runs nothing (see ``runs``)."""

from __future__ import annotations

import re
import signal

from cellwright.sandbox.approved_packages import IMPORT_NAMES, ApprovedList, normal_name

__all__ = ["after_error", "after_signal"]

_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_MISSING_FILE = re.compile(r"FileNotFoundError: \[Errno 2\] [^:]+: ['\"](?!/)")


def after_error(last_line: str, approved: ApprovedList, *, lasts: bool) -> str | None:
    """What to do about an exception's last line; ``lasts`` tells whether the run had a directory that was named."""
    if found := _MISSING_MODULE.match(last_line):
        return _of_module(found[1].partition(".")[0], approved)
    if _MISSING_FILE.match(last_line):
        return (
            "Paths are relative to workingDir"
            if lasts
            else "The run began in an empty directory: name one by workingDir, `.` for the whole data directory"
        )
    return None


def after_signal(code: int) -> str | None:
    """Which signal a negative return code stands for."""
    try:
        return f"Ended by signal {-code} ({signal.Signals(-code).name})" if code < 0 else None
    except ValueError:
        return f"Ended by signal {-code}"


def _of_module(module: str, approved: ApprovedList) -> str:
    name = normal_name(module)
    package = IMPORT_NAMES.get(name, name)
    if package in approved.packages:
        return f'Run it again with packages=["{package}"]'
    return f"{module} is in no approved package; these are: {', '.join(sorted(approved.packages))}"
