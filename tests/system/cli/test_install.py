"""What ``cellwright install`` writes is what the clients read, and nothing that was there is lost."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cellwright
from cellwright.cli._install import CLIENTS, CannotMerge, Launch
from tests.matrix import first_of
from tests.system.daemon.conftest import Place

FILES = {
    "claude-code": ".claude.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
}
KEYS = {"codex": "mcp_servers", "vscode": "servers"}
LAUNCH = Launch("/opt/cellwright/bin/cellwright", ("mcp",))
JSON_CLIENTS = [name for name in CLIENTS if name != "codex"]

UV = Path(sys.executable).with_name("uv")

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def parsed(client: str, text: str) -> dict[str, Any]:
    return tomllib.loads(text) if client == "codex" else json.loads(text)


def entry(client: str, text: str) -> dict[str, Any]:
    found: dict[str, Any] = parsed(client, text)[KEYS.get(client, "mcpServers")]["cellwright"]
    return found


@pytest.mark.parametrize("client", first_of(FILES, 3))
def test_a_client_without_settings_gets_a_file_that_starts_us(place: Place, client: str) -> None:
    done = place.run("install", client)
    path = place.root / "home" / FILES[client]
    assert (done.returncode, done.stdout.strip()) == (0, str(path)), done.stderr
    found = entry(client, path.read_text())
    assert Path(found["command"]).name == "cellwright"
    assert Path(found["command"]).is_absolute()
    assert found["args"] == ["mcp", "--toolset", "core"]
    assert found["env"]["CELLWRIGHT_STORAGE"] == str(place.storage)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    again = place.run("install", client, "--json")
    assert json.loads(again.stdout)["changed"] is False
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir() if "cellwright" in file.name] == []


@pytest.mark.parametrize("client", first_of(FILES, 1))
def test_print_shows_and_writes_nothing(place: Place, client: str) -> None:
    done = place.run("install", client, "--print")
    assert entry(client, done.stdout)["args"] == ["mcp", "--toolset", "core"]
    assert FILES[client] in done.stderr
    assert list((place.root / "home").iterdir()) == []


def test_what_was_there_stays_and_is_kept_beside(place: Place) -> None:
    path = place.root / "home" / ".claude.json"
    before = {
        "numStartups": 7,
        "mcpServers": {"other": {"command": "x"}},
        "projects": {"/p": {"history": ["é"]}},
    }
    path.write_text(json.dumps(before, indent=4))
    path.chmod(0o640)
    assert place.run("install", "claude-code").returncode == 0
    after = json.loads(path.read_text())
    assert after["mcpServers"].pop("cellwright")
    assert after == before
    assert path.read_text().startswith('{\n    "numStartups"'), "in its own layout"
    assert json.loads(path.with_name(".claude.json.before-cellwright").read_text()) == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert "no longer knows" in place.run("install", "claude-code", "--remove").stderr
    assert json.loads(path.read_text()) == before
    assert "did not know" in place.run("install", "claude-code", "--remove").stderr


def test_a_link_to_a_file_kept_elsewhere_stays_a_link(place: Place) -> None:
    dotfiles = place.root / "dotfiles.json"
    dotfiles.write_text("{}")
    link = place.root / "home" / ".cursor" / "mcp.json"
    link.parent.mkdir()
    link.symlink_to(dotfiles)
    assert place.run("install", "cursor").returncode == 0
    assert link.is_symlink()
    assert "cellwright" in dotfiles.read_text()


def test_a_file_with_comments_is_left_alone(place: Place) -> None:
    path = place.root / "home" / ".config" / "Code" / "User" / "mcp.json"
    path.parent.mkdir(parents=True)
    path.write_text('{\n  // mine\n  "servers": {}\n}\n')
    done = place.run("install", "vscode")
    assert done.returncode == 3
    assert "--print" in done.stderr
    assert "// mine" in path.read_text()


def test_a_project_gets_a_file_of_its_own_where_the_client_has_one(place: Place) -> None:
    assert place.run("install", "claude-code", "--project", "--dialect", "jlab").returncode == 0
    found = entry("claude-code", (place.root / "work" / ".mcp.json").read_text())
    assert (found["type"], found["args"]) == ("stdio", ["mcp", "--dialect", "jlab"])
    assert place.run("install", "claude-desktop", "--project").returncode == 3
    assert place.run("install", "emacs").returncode == 2


def test_a_token_is_never_written_into_a_clients_settings(place: Place) -> None:
    place.environment["CELLWRIGHT_TOKEN"] = "t" * 40
    assert "t" * 40 not in place.run("install", "codex", "--print").stdout


@pytest.mark.parametrize("client", first_of(JSON_CLIENTS, 2))
@settings(max_examples=50, deadline=None)
@given(config=st.dictionaries(st.text(), values, max_size=4))
def test_merging_into_json_changes_nothing_but_our_entry(client: str, config: dict[str, Any]) -> None:
    key = KEYS.get(client, "mcpServers")
    config.pop(key, None)
    merged = CLIENTS[client].merge(json.dumps(config), LAUNCH)
    after = json.loads(merged)
    assert after.pop(key) == {"cellwright": entry(client, merged)}
    assert after == config
    assert CLIENTS[client].merge(merged, LAUNCH) == merged


CODEX = """\
# my settings
model = "gpt"   # the good one

[mcp_servers.other]
command = "x"

[mcp_servers.cellwright]
command = "/old/cellwright"
args = ["mcp"]
startup_timeout_sec = 20

[mcp_servers.cellwright.env]
A = "b"

[tui]
theme = 'dark' # [not a table]
"""


def test_merging_into_toml_leaves_every_other_line_as_it_is() -> None:
    merged = CLIENTS["codex"].merge(CODEX, LAUNCH)
    for line in ("# my settings", 'model = "gpt"   # the good one', "theme = 'dark' # [not a table]"):
        assert line in merged
    found = tomllib.loads(merged)
    assert found["mcp_servers"]["cellwright"] == {
        "command": LAUNCH.command,
        "args": ["mcp"],
        "required": True,
    }, "a first turn waits for the tools"
    assert found["mcp_servers"]["other"] == {"command": "x"}
    assert CLIENTS["codex"].merge(merged, LAUNCH) == merged
    removed = CLIENTS["codex"].merge(merged, None)
    assert ("theme = 'dark' # [not a table]" in removed, "cellwright" in removed) == (True, False)


@pytest.mark.parametrize("text", ['mcp_servers = { other = { command = "x" } }\n', "not toml ["])
def test_toml_that_cannot_be_added_to_is_refused(text: str) -> None:
    with pytest.raises(CannotMerge):
        CLIENTS["codex"].merge(text, LAUNCH)


@pytest.mark.parametrize("text", ["[]", '{"mcpServers": []}', "{"])
def test_json_that_is_not_what_the_client_reads_is_refused(text: str) -> None:
    with pytest.raises(CannotMerge):
        CLIENTS["cursor"].merge(text, LAUNCH)


def a_wheel_of_ours(folder: Path) -> Path:
    """A wheel whose command runs this source, on the packages that are here: nothing is fetched."""
    wheel = folder / f"cellwright-{cellwright.__version__}-py3-none-any.whl"
    about = f"cellwright-{cellwright.__version__}.dist-info"
    paths = [
        str(Path(cellwright.__file__).parents[1]),
        *(path for path in sys.path if "site-packages" in path),
    ]
    members = {
        "cellwright_here.pth": "\n".join(paths),
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: cellwright\nVersion: {cellwright.__version__}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": "[console_scripts]\ncellwright = cellwright.cli:main\n",
    }
    members[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in [*members, f"{about}/RECORD"])
    with zipfile.ZipFile(wheel, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return wheel


def test_uvx_installs_a_lasting_copy_and_overwrites_no_other(place: Place, tmp_path: Path) -> None:
    tools, commands = tmp_path / "tools", tmp_path / "bin"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "VIRTUAL_ENV"))}
    environment = {
        **kept,
        **place.environment,
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_TOOL_DIR": str(tools),
        "UV_TOOL_BIN_DIR": str(commands),
        "UV_OFFLINE": "1",
    }
    wheel = a_wheel_of_ours(tmp_path)

    def uvx(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [UV, "tool", "run", "--python", sys.executable, "--from", wheel, "cellwright", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    shown = uvx("install", "codex", "--print")
    lasting, command = tools / "cellwright" / "bin" / "cellwright", commands / "cellwright"
    assert (shown.returncode, lasting.exists()) == (0, False), shown.stderr
    assert entry("codex", shown.stdout)["command"] == str(lasting)
    done = uvx("install", "codex")
    assert done.returncode == 0, done.stderr
    written = (place.root / "home" / FILES["codex"]).read_text()
    assert entry("codex", written)["command"] == str(lasting)
    assert command.resolve() == lasting
    version = subprocess.run(
        [lasting, "--version"], capture_output=True, text=True, check=True, env=environment
    )
    assert version.stdout.strip() == cellwright.__version__
    again = uvx("install", "codex", "--json")
    assert json.loads(again.stdout)["changed"] is False
    shutil.rmtree(tools)
    command.unlink()
    command.write_text("#!/bin/sh\necho 0.0.1\n")
    command.chmod(0o755)
    refused = uvx("install", "gemini")
    assert (refused.returncode, "is cellwright 0.0.1, and this is" in refused.stderr) == (3, True)
    assert not (place.root / "home" / FILES["gemini"]).exists()
    assert ("0.0.1" in command.read_text(), lasting.exists()) == (True, False)
