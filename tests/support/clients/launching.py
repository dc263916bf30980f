"""Runs an agent's real command line once, with a fresh home, one MCP server and a scripted model, and nothing else.

Each client gets the registration that its users write, in its own file, or our plugin, by its own commands. The environment is made from nothing, so no
account of whoever runs the tests is used, and a proxy that refuses everything stands before all other machines.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.clients.installing import (
    CLAUDE_CODE,
    CODEX,
    GEMINI,
    ROOT,
    Installed,
    Program,
)
from tests.support.clients.wires import SERVER_NAME
from tests.waiting import scaled

RUN_LIMIT_S = scaled(100)
KEY = "not-a-key"


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """How a client starts the MCP server."""

    argv: Sequence[str]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Finished:
    """What a client left behind."""

    exit_code: int
    stdout: str
    stderr: str


class ClientTooSlowError(Exception):
    """A client did not end within its limit, and was killed with its process group."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What a client is told before it starts."""

    home: Path
    workspace: Path
    model_url: str
    server: ServerCommand | None
    """None where a plugin brings it."""

    def write(self, path: str, content: str) -> Path:
        """Put a file below the home."""
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        return file


@dataclass(frozen=True, slots=True)
class Invocation:
    """The options and the variables that start a client."""

    options: Sequence[str]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Client:
    """A command line, and how it is configured."""

    name: str
    program: Program
    configure: Callable[[Registration, str], Invocation]
    plugin_commands: Sequence[Sequence[str]]
    """What a user types to install our plugin: ``ROOT`` stands for the repository."""

    def run(
        self,
        installed: Installed,
        prompt: str,
        *,
        model_url: str,
        server: ServerCommand | None,
        directory: Path,
        limit_s: float = RUN_LIMIT_S,
    ) -> Finished:
        """Let the client work on one prompt until it ends; without a server it installs our plugin first.

        Raises:
            ClientTooSlowError: it did not end in time.
        """
        registration = Registration(directory / "home", directory / "workspace", model_url, server)
        registration.home.mkdir(parents=True, exist_ok=True)
        registration.workspace.mkdir()
        invocation = self.configure(registration, prompt)
        env = {**closed_environment(registration, installed.path), **invocation.env}
        for command in self.plugin_commands if server is None else ():
            argv = [argument.replace("ROOT", str(ROOT)) for argument in command]
            done = _run([str(installed.command), *argv], env, registration, limit_s)
            if done.exit_code != 0:
                return done
        return _run([str(installed.command), *invocation.options], env, registration, limit_s)


def closed_environment(registration: Registration, path: str) -> dict[str, str]:
    temporary = registration.home / "tmp"
    temporary.mkdir()
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    loopback = "127.0.0.1,localhost,::1"
    return {
        # uv, too, puts commands there.
        "PATH": f"{registration.home}/.local/bin{os.pathsep}{path}",
        "HOME": str(registration.home),
        "TMPDIR": str(temporary),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
        **{name: registration.model_url for proxy in proxies for name in (proxy, proxy.lower())},
        "NO_PROXY": loopback,
        "no_proxy": loopback,
    }


def _run(argv: Sequence[str], env: Mapping[str, str], registration: Registration, limit_s: float) -> Finished:
    # Files, not pipes: a daemon that a server leaves behind may hold them open after the client has ended.
    said = [registration.home / "stdout", registration.home / "stderr"]
    with said[0].open("wb") as stdout, said[1].open("wb") as stderr:
        process = subprocess.Popen(
            argv,
            cwd=registration.workspace,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            exit_code = process.wait(limit_s)
        except subprocess.TimeoutExpired as error:
            words = "\n".join(file.read_text(errors="replace") for file in said)
            raise ClientTooSlowError(f"{argv[0]} took more than {limit_s:g} s\n{words}") from error
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return Finished(exit_code, *(file.read_text(errors="replace") for file in said))


def _claude_code(registration: Registration, prompt: str) -> Invocation:
    if registration.server is None:
        options = ["--allowedTools", f"mcp__plugin_{SERVER_NAME}_{SERVER_NAME}"]
    else:
        server = {"command": registration.server.argv[0], "args": registration.server.argv[1:]}
        servers = {SERVER_NAME: {"type": "stdio", **server, "env": dict(registration.server.env)}}
        config = registration.write("mcp.json", json.dumps({"mcpServers": servers}))
        options = [
            "--mcp-config",
            str(config),
            "--strict-mcp-config",
            "--allowedTools",
            f"mcp__{SERVER_NAME}",
        ]
    return Invocation(
        options=["-p", prompt, *options],
        env=claude_code_variables(registration),
    )


def claude_code_variables(registration: Registration) -> dict[str, str]:
    """What keeps Claude Code at the scripted model, and on this machine."""
    return {
        "ANTHROPIC_BASE_URL": registration.model_url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CONFIG_DIR": str(registration.home / ".claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        # Otherwise a tool is found by a search of the model's before it can be called.
        "ENABLE_TOOL_SEARCH": "false",
        # The first turn waits for a plugin's server, as for one that is registered.
        "MCP_CONNECTION_NONBLOCKING": "false",
    }


def _codex(registration: Registration, prompt: str) -> Invocation:
    def toml(value: object) -> str:
        # Strings and lists of them are written the same way in TOML.
        return json.dumps(value)

    if registration.server is None:
        table = f'[plugins."{SERVER_NAME}@{SERVER_NAME}".mcp_servers.{SERVER_NAME}]'
    else:
        argv, env = list(registration.server.argv), registration.server.env
        variables = ", ".join(f"{json.dumps(name)} = {toml(value)}" for name, value in env.items())
        table = f"""[mcp_servers.{SERVER_NAME}]
command = {toml(argv[0])}
args = {toml(argv[1:])}
env = {{ {variables} }}
required = true
tool_timeout_sec = 120"""
    registration.write(
        ".codex/config.toml",
        f"""
model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
apps = false
daemon_auto_start = false
plugins = {toml(registration.server is None)}

[model_providers.scripted]
name = "scripted"
base_url = {toml(f"{registration.model_url}/v1")}
wire_api = "responses"
env_key = "SCRIPTED_KEY"

{table}
default_tools_approval_mode = "approve"
""",
    )
    return Invocation(
        options=["exec", "--skip-git-repo-check", "--sandbox", "read-only", prompt],
        env={"CODEX_HOME": str(registration.home / ".codex"), "SCRIPTED_KEY": KEY},
    )


def _gemini(registration: Registration, prompt: str) -> Invocation:
    servers = {}
    if (command := registration.server) is not None:
        server = {"command": command.argv[0], "args": command.argv[1:], "trust": True}
        servers = {SERVER_NAME: {**server, "env": dict(command.env)}}
    settings = {
        "mcpServers": servers,
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    registration.write(".gemini/settings.json", json.dumps(settings))
    return Invocation(
        options=[
            "--model",
            "gemini-3.8-flash",
            "--skip-trust",
            "--approval-mode",
            "yolo",
            "--prompt",
            prompt,
        ],
        env={
            "GEMINI_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": registration.model_url,
            "GEMINI_CLI_NO_RELAUNCH": "true",
        },
    )


CLIENTS = (
    Client(
        "claude-code",
        CLAUDE_CODE,
        _claude_code,
        [["plugin", "marketplace", "add", "ROOT"], ["plugin", "install", "cellwright@cellwright"]],
    ),
    Client(
        "codex",
        CODEX,
        _codex,
        [["plugin", "marketplace", "add", "ROOT"], ["plugin", "add", "cellwright@cellwright"]],
    ),
    Client("gemini", GEMINI, _gemini, [["extensions", "install", "ROOT/plugin", "--consent"]]),
)
