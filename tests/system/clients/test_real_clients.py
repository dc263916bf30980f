"""Claude Code, Codex and Gemini, as their users run them, show a model the text and the picture of a cell.

The model is scripted and everything is on this machine. Who speaks to the model and how is in wires and launching.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from PIL import Image

from tests.matrix import first_of
from tests.support.clients.installing import INSTALL_LIMIT_S, obtain
from tests.support.clients.launching import CLIENTS, RUN_LIMIT_S, Client, ServerCommand
from tests.support.clients.scripted import Call, Say, ScriptedModel, Seen
from tests.waiting import LIMIT_S

Require = Callable[[str, bool, str], None]

PLOT = """\
import matplotlib.pyplot as plt
print("first line")
print("second line")
plt.plot([1, 4, 9])
plt.show()
"""
SESSION_ID = re.compile(r"\bsession(?:_id)?\W+([\w.-]*\w)")
CELL_ID = re.compile(r"\bcell(?:_id)?\W+([\w.-]*\w)")


def _found(pattern: re.Pattern[str], seen: Seen) -> str:
    match = pattern.search(seen.text)
    assert match is not None, f"{pattern.pattern} is not in {seen.text!r}"
    return match[1]


def _session(seen: Sequence[Seen]) -> dict[str, str]:
    return {"session_id": _found(SESSION_ID, seen[0])}


def _cell(seen: Sequence[Seen]) -> dict[str, str]:
    return {**_session(seen), "code": PLOT}


def _execution(seen: Sequence[Seen]) -> dict[str, str]:
    return {**_session(seen), "cell_id": _found(CELL_ID, seen[1])}


SCRIPT: list[Call | Say] = [
    Call("notebook_create", {"name": "plotting"}),
    Call("cell_add", _cell),
    Call("cell_execute", _execution),
    # Clients keep the list of tools that a turn began with.
    Call("toolset_enable", {"toolset": "history"}),
    Call("toolset_enable", lambda seen: {"tool": "checkpoint_create", "arguments": _session(seen)}),
    Say("The plot is there."),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerCommand]:
    """``cellwright mcp``, as it is installed, with a storage directory of its own; what it leaves running ends with the test."""
    storage = {"CELLWRIGHT_STORAGE": str(tmp_path / "storage"), "CELLWRIGHT_RUN_MODE": "local"}
    yield ServerCommand(
        [str(Path(sys.executable).with_name("cellwright")), "mcp", "--toolset", "core"], storage
    )
    left = [process for process in psutil.process_iter() if _runs_with(process, storage)]
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, stubborn = psutil.wait_procs(left, LIMIT_S)
    for process in stubborn:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _runs_with(process: psutil.Process, variables: dict[str, str]) -> bool:
    try:
        return variables.items() <= process.environ().items()
    except psutil.Error:
        return False


@pytest.mark.timeout(INSTALL_LIMIT_S + RUN_LIMIT_S + LIMIT_S)
@pytest.mark.parametrize("client", first_of(CLIENTS, 1), ids=lambda client: client.name)
def test_model_reads_the_text_and_sees_the_picture_of_a_cell_through(
    client: Client, server: ServerCommand, tmp_path: Path, require: Require
) -> None:
    installed = obtain(client.program, require)
    with ScriptedModel(SCRIPT) as model:
        finished = client.run(
            installed,
            "Plot three squares.",
            model_url=model.url,
            server=server,
            directory=tmp_path / "client",
        )

    told = f"{model.problems}\n{finished.stdout}\n{finished.stderr}"
    assert (finished.exit_code, model.problems) == (0, []), told
    assert "The plot is there." in finished.stdout, told
    assert model.elsewhere == [], "The client wanted to leave this machine"
    created, added, executed, enabled, kept = model.seen
    assert "first line\nsecond line" in executed.text
    assert "checkpoint_create(session_id, name): " in enabled.text
    assert '"checkpoint":"c-' in kept.text
    for result in (created, added, executed, enabled):
        assert "\\n" not in result.text, "A result reached the model as escaped JSON"
    assert _colours(executed.images) > 1, "The picture that reached the model is blank"


@pytest.mark.timeout(INSTALL_LIMIT_S + 3 * RUN_LIMIT_S + LIMIT_S)
@pytest.mark.matrix  # the same server, by one more way of registering it
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_plugin_from_its_marketplace_brings_the_server_to(
    client: Client, server: ServerCommand, tmp_path: Path, require: Require
) -> None:
    installed = obtain(client.program, require)
    # In the place of uv, which would fetch a release: what the manifest says after it is run from this environment.
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in server.env.items())
    uvx = tmp_path / "client" / "home" / ".local" / "bin" / "uvx"
    uvx.parent.mkdir(parents=True)
    uvx.write_text(
        f'#!/bin/sh\n[ "$1 $2 $3" = "--from cellwright[data] cellwright" ] || exit 64\nshift 3\n{exports}'
        f'exec {shlex.quote(server.argv[0])} "$@"\n'
    )
    uvx.chmod(0o755)
    with ScriptedModel([Call("notebook_create", {"name": "plugged"}), Say("There it is.")]) as model:
        finished = client.run(
            installed, "Begin.", model_url=model.url, server=None, directory=tmp_path / "client"
        )

    told = f"{model.problems}\n{finished.stdout}\n{finished.stderr}"
    assert (finished.exit_code, model.problems) == (0, []), told
    assert SESSION_ID.search(model.seen[0].text), told


def _colours(images: list[bytes]) -> int:
    """How many colours the one picture has."""
    assert len(images) == 1
    with Image.open(io.BytesIO(images[0]), formats=["PNG"]) as picture:
        return len(picture.convert("RGB").getcolors(maxcolors=picture.width * picture.height) or ())
