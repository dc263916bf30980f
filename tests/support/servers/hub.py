"""JupyterHub with its proxy: people who sign in, and a server for each, started on demand.

Everybody may sign in (with one password), and every server runs as whoever runs the tests. Not a model of how a hub
should be set up.
"""

from __future__ import annotations

import select
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from tests.support.clients.installing import Installed, Program
from tests.support.servers.server import (
    MARK,
    PYTHON,
    QUICK,
    READY_LIMIT_S,
    Recipe,
    Server,
    ServerBrokenError,
    free_ports,
    new_token,
)
from tests.waiting import PACE_S

PROXY = Program("configurable-http-proxy", "5.3.0", "configurable-http-proxy")
PERSON = "ada"


@dataclass(slots=True)
class Hub:
    """A hub, and one person on it. ``token`` is hers and may do all that she may; ``admin_token`` is a service's."""

    server: Server
    token: str
    password: str
    user: str = PERSON

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def admin_token(self) -> str:
        return self.server.token

    @property
    def root(self) -> Path:
        """Where the person's notebooks are."""
        return self.server.home / "people" / self.user

    @property
    def log(self) -> str:
        return self.server.log

    def kill(self) -> None:
        """Kill -9 the hub, its proxy and every person's server."""
        self.server.kill()

    def restart(self) -> None:
        """The same address, people and tokens; their servers do not survive."""
        self.server.restart()

    def start_server(self) -> None:
        """Start the person's own server, and wait until it answers: on a busy machine a hub answers sooner than that."""
        self.server.request("POST", f"/hub/api/users/{self.user}/server", token=self.token)
        deadline = monotonic() + READY_LIMIT_S
        while not self.server.request("GET", f"/hub/api/users/{self.user}")["server"]:
            if monotonic() > deadline:
                raise ServerBrokenError(f"the server of {self.user} is not ready: {self.server.log[-2_000:]}")
            select.select([], [], [], PACE_S)

    def new_token(self, *scopes: str, user: str = PERSON) -> str:
        """A token of a person's that may do no more than these scopes."""
        return self._new_token(user, {"scopes": list(scopes)})

    def add_user(self, user: str) -> str:
        """Make somebody else known; returns a token that may do all that they may."""
        self.server.request("POST", f"/hub/api/users/{user}")
        return self._new_token(user, {})

    def _new_token(self, user: str, asked: dict[str, Any]) -> str:
        token: str = self.server.request("POST", f"/hub/api/users/{user}/tokens", asked)["token"]
        return token


def start_hub(home: Path, proxy: Installed) -> Hub:
    """Start a hub with one person, whose server is not running yet."""
    port, hub_port, proxy_port = free_ports(3)
    admin_token, password = new_token(), new_token()
    home.mkdir(parents=True, exist_ok=True)
    (home / "people").mkdir()
    configuration = home / "jupyterhub_config.py"
    options = {
        "JupyterHub.bind_url": f"http://127.0.0.1:{port}",
        "JupyterHub.hub_bind_url": f"http://127.0.0.1:{hub_port}",
        "JupyterHub.db_url": f"sqlite:///{home / 'hub.sqlite'}",
        "JupyterHub.cookie_secret_file": str(home / "cookie_secret"),
        "JupyterHub.authenticator_class": "dummy",
        "JupyterHub.spawner_class": "simple",
        "JupyterHub.services": [{"name": "tests", "api_token": admin_token}],
        "JupyterHub.load_roles": [
            {
                "name": "tests",
                "services": ["tests"],
                "scopes": ["admin:users", "admin:servers", "tokens", "access:servers"],
            }
        ],
        "Authenticator.allow_all": True,
        "DummyAuthenticator.password": password,
        "ConfigurableHTTPProxy.api_url": f"http://127.0.0.1:{proxy_port}",
        "ConfigurableHTTPProxy.command": [str(proxy.node.executable), str(proxy.command)],
        "ConfigurableHTTPProxy.pid_file": str(home / "proxy.pid"),
        "SimpleLocalProcessSpawner.home_dir_template": str(home / "people" / "{username}"),
        "Spawner.args": ["--allow-root"],
        # A busy machine may take its time over a person's server.
        "Spawner.start_timeout": READY_LIMIT_S,
        "Spawner.http_timeout": READY_LIMIT_S,
        # A hub gives people's servers little of its own environment.
        "Spawner.environment": {MARK: str(home), "PYTHONPATH": str(QUICK)},
        "Spawner.cmd": [str(PYTHON), "-m", "jupyterhub.singleuser"],
    }
    configuration.write_text("".join(f"c.{name} = {value!r}\n" for name, value in options.items()))
    argv = [str(PYTHON), "-m", "jupyterhub", "--config", str(configuration)]
    # The proxy's own `env node` finds the Node that came with it.
    recipe = Recipe(argv, {"CONFIGPROXY_AUTH_TOKEN": new_token()}, "/hub/api/users")
    server = Server(home, port, admin_token, recipe)
    server.start()
    hub = Hub(server, "", password)
    try:
        hub.token = hub.add_user(PERSON)
    except BaseException:
        hub.kill()
        raise
    return hub
