"""Which JupyterLab there is, and how it is told where its kernels are. Decides; starts nothing (see ``cli``).

Everything is said in a file that only the user can read, beside the user's own configuration and stronger than that:
tokens do not belong in a command line or an environment.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import psutil

from cellwright.errors import CellwrightError
from cellwright.settings.paths import write_private

__all__ = [
    "LabRecord",
    "configuration",
    "find_program",
    "forget_lab",
    "lab_directory",
    "lab_environment",
    "notebook_url",
    "process_of",
    "read_lab",
    "read_labs",
    "write_configuration",
    "write_lab",
]

_RETRIES = 1_000_000
"""How often Lab's server calls a gateway that is gone, a few seconds apart: as long as it lives."""

_KERNEL_START_S = 600
"""A kernel may have to wait for its place on another machine."""

_ENCLOSURE = Path(__file__).with_name("_enclosure.py")

_START = (
    "import sys; sys.modules['rfc3987_syntax'] = None; from jupyterlab.labapp import main; sys.exit(main())"
)
"""Without grammars for addresses in any script, which nothing in Lab checks: half of what its start would cost."""

_NEWS = "@jupyterlab/apputils-extension:announcements"
"""Asks whether it may fetch news."""


class NoLab(CellwrightError):
    """There is no JupyterLab to start."""

    code = "no_lab"


def find_program() -> list[str]:
    """The command of the JupyterLab beside us, or else of the user's own.

    Raises:
        NoLab: there is none.
    """
    if importlib.util.find_spec("jupyterlab") is not None:
        return [sys.executable, "-c", _START]
    found = shutil.which("jupyter-lab")
    if found is None:
        raise NoLab("JupyterLab is not installed", hint="Run `pip install 'cellwright[lab]'`")
    return [found]


def configuration(
    home: Path, folder: Path, *, port: int, token: str, gateway_url: str, gateway_token: str
) -> dict[str, Any]:
    """What Lab is told. Its page runs what a cell shows, so whatever would lead out of the sandbox is off."""
    return {
        "ServerApp": {
            "ip": "127.0.0.1",
            "port": port,
            "open_browser": False,
            "log_level": "WARN",  # it would tell every variable of its environment
            "allow_root": True,  # who is root here has said so before, and Lab runs no code of its own
            "root_dir": str(folder),
            "allow_origin": "",
            "allow_origin_pat": "",
            "allow_remote_access": False,
            "terminals_enabled": False,
            "certfile": "",
            "keyfile": "",
            "base_url": "/",
        },
        "IdentityProvider": {"token": token},
        "PasswordIdentityProvider": {"hashed_password": "", "allow_password_change": False},
        "GatewayClient": {
            "url": gateway_url,
            "auth_scheme": "Bearer",
            "auth_token": gateway_token,
            "gateway_retry_max": _RETRIES,
            "gateway_retry_interval_max": 3.0,
            "request_timeout": _KERNEL_START_S,
        },
        # They would be processes of the user's, outside of the sandbox, and are looked for at every start.
        "LanguageServerManager": {"autodetect": False},
        "LabApp": {
            "extension_manager": "readonly",
            "news_url": None,
            "check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
            "workspaces_dir": str(home / "workspaces"),
        },
    }


def write_configuration(home: Path, settings: Mapping[str, Any]) -> None:
    """Put it where Lab's server reads it before the user's own files, of which it wins."""
    config = home / "config"
    config.mkdir(mode=0o700, exist_ok=True)
    _write(config / "jupyter_server_config.json", settings)
    # Weaker than the other, and needs no setting: it alters the program itself.
    (config / "jupyter_server_config.py").write_text(f"{_ENCLOSURE.read_text()}\n\nenclose()\n")
    pages = config / "labconfig"
    pages.mkdir(mode=0o700, exist_ok=True)
    _write(pages / "page_config.json", {"disabledExtensions": {_NEWS: True}})


def _write(file: Path, value: Mapping[str, Any]) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8") as written:  # a descriptor, opened 0600 from the start
        json.dump(value, written)


def lab_environment(home: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The user's, with our directory of configuration first, and a place of its own for what it says of itself."""
    kept = {name: value for name, value in environment.items() if not name.startswith("JUPYTER_GATEWAY_")}
    paths = [str(home / "config"), *filter(None, [environment.get("JUPYTER_CONFIG_PATH")])]
    return {
        **kept,
        "JUPYTER_CONFIG_PATH": os.pathsep.join(paths),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
    }


def notebook_url(port: int, notebook: str) -> str:
    return f"http://127.0.0.1:{port}/lab/tree/{quote(notebook)}"


# The Labs that run: what is known of each lies in a file that only its user can read, with its tokens.

_FILE = "lab.json"


class LabRecord(msgspec.Struct, frozen=True):
    """One JupyterLab at work on a session."""

    session: str
    pid: int
    started: float
    """When its process began: a number that another process has later is not it."""
    url: str
    """With the notebook open, without the token."""
    token: str
    gateway_port: int
    gateway_token: str

    @property
    def link(self) -> str:
        """What a person opens."""
        return f"{self.url}?token={self.token}"


_decode = msgspec.json.Decoder(LabRecord).decode


def lab_directory(storage: Path, session: str) -> Path:
    """The directory of a session's Lab."""
    return storage / "labs" / session


def read_labs(storage: Path) -> list[LabRecord]:
    """Every Lab that still runs."""
    homes = sorted((storage / "labs").glob("*")) if (storage / "labs").is_dir() else []
    return [record for home in homes if (record := read_lab(storage, home.name)) is not None]


def read_lab(storage: Path, session: str) -> LabRecord | None:
    """A session's Lab, if it still runs."""
    try:
        record = _decode((lab_directory(storage, session) / _FILE).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None
    return record if process_of(record) is not None else None


def process_of(record: LabRecord) -> psutil.Process | None:
    """The Lab's process, while it lives."""
    with suppress(psutil.Error):
        process = psutil.Process(record.pid)
        if process.create_time() == record.started and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def write_lab(storage: Path, record: LabRecord) -> None:
    write_private(str(lab_directory(storage, record.session) / _FILE), msgspec.json.encode(record))


def forget_lab(storage: Path, session: str) -> None:
    (lab_directory(storage, session) / _FILE).unlink(missing_ok=True)
