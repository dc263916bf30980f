"""The kinds of server that Jupyter has for one person: plain, with shared documents, and the Kernel Gateway.

Only says how each is started (see server for what happens then). A hub is more than one process (see hub).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.servers.server import PYTHON, Recipe, Server, free_ports, new_token

Config = Mapping[str, Mapping[str, Any]]


def plain_server(home: Path, config: Config | None = None) -> Server:
    """``jupyter_server`` and nothing else: kernels, contents, sessions. ``config`` comes on top, class by class."""
    names = ("jupyter_lsp", "jupyter_server_ydoc", "jupyter_server_fileid", "jupyterlab", "notebook_shim")
    extensions = dict.fromkeys(names, False)
    return _server(home, "jupyter_server", {"ServerApp": {"jpserver_extensions": extensions}}, config)


def collaboration_server(home: Path, config: Config | None = None) -> Server:
    """JupyterLab with jupyter-collaboration: documents are shared, and saved soon."""
    quick = {
        "YDocExtension": {"document_save_delay": 0.2, "file_poll_interval": 0.5},
        # Nothing that looks for news on the network.
        "LabApp": {"news_url": None},
    }
    return _server(home, "jupyterlab", quick, config)


def kernel_gateway(home: Path, config: Config | None = None) -> Server:
    """The Kernel Gateway as it comes: kernels only, and no list of them."""
    (port,) = free_ports(1)
    token = new_token()
    _write_config(home, "jupyter_kernel_gateway_config.json", config or {})
    argv = [str(PYTHON), "-m", "kernel_gateway"]
    environment = {"KG_IP": "127.0.0.1", "KG_PORT": str(port), "KG_PORT_RETRIES": "0", "KG_AUTH_TOKEN": token}
    return Server(home, port, token, Recipe(argv, environment, "/api"))


def _server(home: Path, module: str, config: Config, extra: Config | None) -> Server:
    (port,) = free_ports(1)
    token = new_token()
    base = {
        "ServerApp": {
            "ip": "127.0.0.1",
            "port": port,
            "port_retries": 0,
            "open_browser": False,
            "allow_root": True,
            "root_dir": str(home / "root"),
        }
    }
    _write_config(home, "jupyter_server_config.json", base, config, extra or {})
    recipe = Recipe([str(PYTHON), "-m", module, "--no-browser"], {"JUPYTER_TOKEN": token}, "/api/status")
    return Server(home, port, token, recipe)


def _write_config(home: Path, name: str, *parts: Config) -> None:
    merged: dict[str, dict[str, Any]] = {}
    for part in parts:
        for owner, options in part.items():
            merged.setdefault(owner, {}).update(options)
    directory = home / "config"
    directory.mkdir(parents=True)
    (directory / name).write_text(json.dumps(merged))
