"""Puts settings together from every source, and says what is wrong with them.

From the strongest: flags, ``CELLWRIGHT_*`` variables, the project's ``cellwright.toml``, the user's, a Srcbook-style
JSON file, jlab-mcp's ``JLAB_MCP_*`` variables, the defaults.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import SettingsError

from cellwright.errors import CellwrightError
from cellwright.settings._files import SRCBOOK_NAMES, SettingsFile, read_files
from cellwright.settings.model import ApprovalRules, Settings
from cellwright.settings.modelkeys import MODEL_VARIABLES
from cellwright.settings.paths import user_settings_file

__all__ = ["Problem", "SettingsRefused", "examine_settings", "load_settings"]

_PREFIX = "CELLWRIGHT_"

_JLAB_PREFIX = "JLAB_MCP_"

_JLAB_NAMES = {
    _JLAB_PREFIX + name.upper(): name
    for name in (
        "run_mode",
        "slurm_partition",
        "slurm_gres",
        "slurm_cpus",
        "slurm_mem",
        "slurm_time",
        "slurm_account",
        "slurm_qos",
        "slurm_constraint",
        "slurm_modules",
        "notebook_dir",
    )
}
"""What jlab-mcp's variables mean here."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with the settings, where it stands, and what fixes it."""

    where: str
    message: str
    fix: str


class SettingsRefused(CellwrightError):
    """Settings that cannot be used, with every reason."""

    code = "settings"

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        message = "; ".join(f"{problem.where}: {problem.message}" for problem in problems)
        super().__init__(message, hint=f"{problems[0].fix}; `cellwright doctor` lists every setting")


def load_settings(directory: Path | None = None, **flags: Any) -> Settings:
    """The settings of somebody who works in ``directory``.

    Raises:
        SettingsRefused: a name is unknown, or a value is not one that the setting takes.
        SettingsUnreadable: a settings file is not TOML or JSON.
    """
    directory = directory or Path.cwd()
    files = read_files(
        directory,
        user_settings_file(),
        srcbook_file=flags.get("srcbook_file") or os.environ.get("CELLWRIGHT_SRCBOOK_FILE"),
    )
    problems = list(_unknown_in_files(files))
    if problems:
        raise SettingsRefused(problems)
    values: dict[str, Any] = {"root": directory}
    origins: dict[str, str] = {}
    for variable, name in _JLAB_NAMES.items():
        if said_there := os.environ.get(variable):
            values[name], origins[name] = said_there, variable
    for file in files:
        values |= file.values
        origins |= dict.fromkeys(file.values, str(file.path))
    said = {name.upper() for name in os.environ}
    values = {name: value for name, value in values.items() if _PREFIX + name.upper() not in said} | flags
    origins |= dict.fromkeys(flags, "the command line")
    try:
        return Settings(**values)
    except ValidationError as error:
        raise SettingsRefused(list(_mistyped(error, origins, values))) from None
    except SettingsError as error:
        # Of a list or a table that is not JSON the library tells only the field, in its message.
        named = re.search(r'field "(\w+)"', str(error))
        variable = _PREFIX + named[1].upper() if named else "a variable"
        wrong = Problem(
            variable,
            'is no JSON, in which lists are written, for instance ["numpy"]',
            f"correct or remove {variable}",
        )
        raise SettingsRefused([wrong]) from None


def examine_settings(directory: Path | None = None, **flags: Any) -> list[Problem]:
    """Everything that is unknown, mistyped, without effect or dangerous, also what ``load_settings`` lets pass."""
    directory = directory or Path.cwd()
    problems: list[Problem] = []
    try:
        settings = load_settings(directory, **flags)
    except SettingsRefused as error:
        problems += error.problems
    except CellwrightError as error:
        return [Problem("settings", error.message, error.hint or "correct the file")]
    else:
        for name, danger in settings.dangers.items():
            problems.append(Problem(name, danger, f"remove {name}, unless you trust all code that runs here"))
    problems += _unknown_variables(os.environ)
    for file in read_files(directory, user_settings_file()):
        for name, reason in file.refused.items():
            problems.append(Problem(f"{file.path}: {name}", f"ignored: {reason}", f"move {name} there"))
    return problems


def _unknown_in_files(files: list[SettingsFile]) -> Iterator[Problem]:
    for file in files:
        names = SRCBOOK_NAMES if file.path.suffix == ".json" else Settings.model_fields
        for name in file.values.keys() - Settings.model_fields.keys():
            yield Problem(str(file.path), f"there is no setting {name!r}", _nearest(name, list(names)))


def _unknown_variables(environment: Mapping[str, str]) -> Iterator[Problem]:
    known = [_PREFIX + name.upper() for name in Settings.model_fields]
    for variable in sorted(environment):
        if variable.upper().startswith(_PREFIX) and variable.upper() not in (*known, *MODEL_VARIABLES):
            yield Problem(variable, "there is no such setting", _nearest(variable.upper(), known))
        if variable.upper().startswith(_JLAB_PREFIX) and variable not in _JLAB_NAMES:
            yield Problem(variable, "has no meaning here", _nearest(variable.upper(), list(_JLAB_NAMES)))


def _mistyped(
    error: ValidationError, origins: Mapping[str, str], values: Mapping[str, Any]
) -> Iterator[Problem]:
    for problem in error.errors():
        name = str(problem["loc"][0]) if problem["loc"] else "settings"
        whole = ".".join(map(str, problem["loc"])) or name
        if problem["type"] == "extra_forbidden":
            known = ApprovalRules.model_fields if name == "approvals" else Settings.model_fields
            yield Problem(whole, "there is no such setting", _nearest(str(problem["loc"][-1]), list(known)))
            continue
        where = f"{origins[name]}: {whole}" if name in values and name in origins else _PREFIX + name.upper()
        yield Problem(where, problem["msg"], f"correct or remove {whole}")


def _nearest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else "see docs/reference/settings.md for the names"
