"""The files that settings are written in: ``cellwright.toml`` of the user and of the project, and Srcbook's JSON.

Reads and translates; what a value means and whether it is right is for ``model``. Standard library only.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cellwright.errors import CellwrightError

__all__ = ["PATHS", "SRCBOOK_NAMES", "SettingsFile", "SettingsUnreadable", "read_files", "storage_in_files"]

FILE_NAME = "cellwright.toml"
# A path in a file is meant from where the file lies.
PATHS = frozenset(
    {
        "root",
        "storage",
        "srcbook_file",
        "token_file",
        "jupyter_token_file",
        "password_file",
        "slurm_python",
        "slurm_template",
    }
)
PATH_LISTS = frozenset({"roots"})
TABLES = frozenset({"connections", "jupyter_servers"})
# A project's file comes with the project, perhaps from a stranger: it says how to work there, not what the user allows.
ONLY_THE_USER_SAYS = frozenset(
    {
        "allow_network",
        "allowed_hosts",
        "allowed_origins",
        "approvals",
        "approved_npm_packages",
        "approved_packages",
        # A stranger's server would be sent the user's password, or a stranger's command be started.
        "connections",
        "gpus",
        # A stranger's server would be sent the user's token, or shown the user's code.
        "jupyter_insecure_http",
        "jupyter_servers",
        "jupyter_token",
        "jupyter_token_file",
        "jupyter_url",
        # The same of a stranger's model: it would be sent the user's questions, data and key.
        "model_rows",
        "models",
        "network",
        "network_allow",
        # A stranger's issuer would let the stranger in.
        "oauth_audience",
        "oauth_client_hosts",
        "oauth_idle_days",
        "oauth_issuer",
        "oauth_subjects",
        "oauth_token_s",
        "oauth_url",
        "pass_environment",
        "read_paths",
        "sandbox_namespaces",
        "slurm_extra",
        "slurm_python",
        "slurm_template",
        # A stranger's gallery would be fetched, and shown as the user's choice.
        "templates",
        "token_file",
        "trusted_plugins",
        "unsafe_no_sandbox",
        "write_paths",
    }
)

SRCBOOK_NAMES = {
    "maxSessions": "max_sessions",
    "sessionTimeout": "session_idle_s",
    "executionTimeout": "cell_timeout_s",
    "maxMemoryPerSession": "max_session_memory",
    "allowNetworkAccess": "allow_network",
    "persistSessions": "persist_sessions",
    "storageDirectory": "storage",
}
_IN_MILLISECONDS = frozenset({"sessionTimeout", "executionTimeout"})


class SettingsUnreadable(CellwrightError):
    """A settings file that cannot be read as what it is."""

    code = "settings_unreadable"


@dataclass(slots=True)
class SettingsFile:
    """What one file says, under the names of ``Settings``; ``refused`` says why a name in it does not count."""

    path: Path
    values: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def read_files(directory: Path, user_file: str, *, srcbook_file: str | None = None) -> list[SettingsFile]:
    """Every settings file that counts for somebody who works in ``directory``, the weakest first; ``user_file`` is theirs.

    Raises:
        SettingsUnreadable: a file is there but is not TOML or JSON.
    """
    tomls = []
    user = Path(user_file)
    if user.is_file():
        tomls.append(_read_toml(user))
    project = _project_file(directory)
    if project is not None and project != user:
        tomls.append(_project_settings(project, user))
    if srcbook_file is not None:
        return [_read_srcbook(Path(srcbook_file).expanduser()), *tomls]
    for file in reversed(tomls):
        if (named := file.values.get("srcbook_file")) is not None:
            srcbook = _read_srcbook(Path(named).expanduser())
            # What a project's file may not say, it may not have said by another.
            return [srcbook if file.path == user else _without_the_users(srcbook, user), *tomls]
    return tomls


def storage_in_files(directory: str, user_file: str) -> str | None:
    """The storage directory that the files name, if any does."""
    named = None
    for file in read_files(
        Path(directory), user_file, srcbook_file=os.environ.get("CELLWRIGHT_SRCBOOK_FILE")
    ):
        named = file.values.get("storage", named)
    return named if isinstance(named, str) else None


def _project_file(directory: Path) -> Path | None:
    """The nearest file at or above a directory that this user, or root, put there."""
    for place in (directory, *directory.parents):
        candidate = place / FILE_NAME
        try:
            owner = candidate.stat().st_uid
        except OSError:
            continue
        if owner in (os.getuid(), 0):
            return candidate
    return None


def _project_settings(path: Path, user: Path) -> SettingsFile:
    file = _without_the_users(_read_toml(path), user)
    for name in ("root", "roots", "notebook_dir"):
        value = file.values.get(name, ())
        wanted = [value] if isinstance(value, str) else value
        outside = [
            one for one in wanted if not (path.parent / one).resolve().is_relative_to(path.parent.resolve())
        ]
        if outside:
            del file.values[name]
            file.refused[name] = (
                f"a project's file may name directories in the project only, not {outside[0]}"
            )
    return file


def _without_the_users(file: SettingsFile, user: Path) -> SettingsFile:
    for name in sorted(ONLY_THE_USER_SAYS & file.values.keys()):
        del file.values[name]
        file.refused[name] = f"only {user}, a variable or a flag may say it"
    return file


def _read_toml(path: Path) -> SettingsFile:
    import tomllib  # commands that speak to the daemon read no file where there is none

    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SettingsUnreadable(f"{path} is not TOML: {error}", hint="Correct that line") from error
    except OSError as error:
        raise SettingsUnreadable(f"{path} cannot be read: {error.strerror}") from error
    return SettingsFile(path, {name: _placed(name, value, path.parent) for name, value in values.items()})


def _read_srcbook(path: Path) -> SettingsFile:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SettingsUnreadable(f"{path} is not JSON: {error}", hint="Correct that line") from error
    except OSError as error:
        raise SettingsUnreadable(
            f"{path} cannot be read: {error.strerror}", hint="Correct srcbook_file, or remove it"
        ) from error
    options = content.get("options", content) if isinstance(content, dict) else None
    if not isinstance(options, dict):
        raise SettingsUnreadable(f"{path} holds no object of options", hint='Write {"options": {…}}')
    nested = options is not content
    file = SettingsFile(path)
    for name, value in options.items():
        if name in SRCBOOK_NAMES:
            ours = SRCBOOK_NAMES[name]
            scaled = value / 1000 if name in _IN_MILLISECONDS and _is_number(value) else value
            file.values[ours] = _placed(ours, scaled, path.parent)
        elif nested:  # beside the options such a file says what the server is; inside them all is a setting
            file.values[name] = value
    return file


def _placed(name: str, value: Any, directory: Path) -> Any:
    if name in PATHS and isinstance(value, str):
        return str(directory / Path(value).expanduser())
    if name in PATH_LISTS and isinstance(value, list):
        return [str(directory / Path(one).expanduser()) if isinstance(one, str) else one for one in value]
    if name in TABLES and isinstance(value, dict):
        return {one: _placed_below(below, directory) for one, below in value.items()}
    return value


def _placed_below(table: Any, directory: Path) -> Any:
    if not isinstance(table, dict):
        return table
    return {name: _placed(name, value, directory) for name, value in table.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
