"""Clients that people have sign in over HTTP, given an address alone, and call a tool: fastmcp's, the Inspector, Claude Code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.clients.installing import (
    CLAUDE_CODE,
    FASTMCP,
    INSPECTOR,
    INSTALL_LIMIT_S,
    ROOT,
    obtain,
    obtain_python,
)
from tests.support.clients.launching import Registration, claude_code_variables, closed_environment
from tests.support.clients.scripted import Call, Say, ScriptedModel
from tests.support.clients.signing_in import run_for
from tests.support.clients.wires import SERVER_NAME
from tests.support.oauth.browser import User
from tests.system.daemon.conftest import place_in
from tests.system.daemon.test_listeners import Served, served

pytestmark = pytest.mark.timeout(INSTALL_LIMIT_S + 400)

FASTMCP_CLIENT = str(ROOT / "tests/support/clients/fastmcp_client.py")
Require = Callable[[str, bool, str], None]


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("sign-in")
    with (
        place_in(root, CELLWRIGHT_OAUTH_ISSUER="own") as place,
        served(place, "--toolset", "core") as listener,
    ):
        yield listener


def signed_in(listener: Served) -> list[str]:
    done = listener.place.run("sign-ins", "--json")
    return [one["client"] for one in json.loads(done.stdout)["sign_ins"]]


def test_the_client_of_fastmcp_signs_in_and_calls_a_tool(
    listener: Served, tmp_path: Path, require: Require
) -> None:
    python = obtain_python(FASTMCP, require)
    # Its browser is a program that prints the address.
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "BROWSER": "echo %s"}
    argv = [str(python), "-W", "ignore", FASTMCP_CLIENT, f"http://{listener.address}/mcp"]
    printed = run_for(User(listener.token), argv, env, tmp_path)
    assert "session" in printed.splitlines()[-1], printed
    assert "FastMCP Client" in signed_in(listener)


def test_the_inspector_signs_in_and_calls_a_tool(listener: Served, tmp_path: Path, require: Require) -> None:
    installed = obtain(INSPECTOR, require)
    env = {
        "PATH": installed.path,
        "HOME": str(tmp_path),
        "MCP_INSPECTOR_SECRET_STORE": "memory",
        "MCP_OAUTH_CALLBACK_URL": "http://127.0.0.1:0/oauth/callback",
    }
    call = ["--method", "tools/call", "--tool-name", "notebook_create", "--tool-arg", "name=inspected"]
    argv = [str(installed.command), "--cli", f"http://{listener.address}/mcp", "--transport", "http", *call]
    printed = run_for(User(listener.token), argv, env, tmp_path)
    assert '"isError": false' in printed, printed
    assert any("Inspector" in name for name in signed_in(listener))


def test_claude_code_signs_in_and_its_model_calls_a_tool(
    listener: Served, tmp_path: Path, require: Require
) -> None:
    installed = obtain(CLAUDE_CODE, require)
    claude = str(installed.command)
    with ScriptedModel([Call("notebook_create", {"name": "signed in"}), Say("There it is.")]) as model:
        registration = Registration(tmp_path / "home", tmp_path, model.url, None)
        registration.home.mkdir()
        env = {**closed_environment(registration, installed.path), **claude_code_variables(registration)}
        add = ["mcp", "add", "--transport", "http", SERVER_NAME, f"http://{listener.address}/mcp"]
        run_for(None, [claude, *add], env, tmp_path)
        login = ["mcp", "login", "--no-browser", SERVER_NAME]
        run_for(User(listener.token), [claude, *login], env, tmp_path)
        work = ["-p", "Begin.", "--allowedTools", f"mcp__{SERVER_NAME}"]
        printed = run_for(None, [claude, *work], env, tmp_path)
    assert "There it is." in printed, f"{model.problems}\n{printed}"
    assert model.problems == []
    assert "session" in model.seen[0].text
    assert any("Claude Code" in name for name in signed_in(listener))
