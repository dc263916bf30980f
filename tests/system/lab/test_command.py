"""``cellwright session lab``: what it starts, finds and ends, and who learns its tokens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import psutil
import pytest

from cellwright.lab.program import find_program, read_lab
from tests.support.lab.windows import agent, notebook, said, started
from tests.system.daemon.conftest import Place, place_in
from tests.waiting import LIMIT_S

WITHOUT_LAB = "import sys; sys.modules['jupyterlab'] = None; from cellwright.cli import main; main()"


@pytest.fixture(scope="module")
def spot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with place_in(tmp_path_factory.mktemp("lab")) as place:
        yield place


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:  # noqa: S310  # our own, on loopback
        return json.load(answer)


def _api(told: dict[str, Any], path: str) -> str:
    parts = urlsplit(told["url"])
    return f"http://{parts.netloc}{path}?{parts.query}"


def test_second_call_finds_the_lab_and_ctrl_c_ends_it_but_not_the_session(spot: Place) -> None:
    pump = agent(spot)
    session, path = notebook(pump, "1")
    said(pump, "scratch_run", session_id=session, code="x = 41")
    with started(spot, session) as (process, told):
        again = spot.run("lab", path, "--json")
        assert json.loads(again.stdout) == told
        [spec] = _get(_api(told, "/api/kernelspecs"))["kernelspecs"].values()
        assert session in spec["spec"]["display_name"]
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 0
    assert not psutil.pid_exists(told["pid"])
    assert read_lab(spot.storage, session) is None
    assert "\n41" in said(pump, "scratch_run", session_id=session, code="print(x)")


def test_detached_lab_outlives_the_daemon_and_is_stopped_by_name(spot: Place) -> None:
    session, _ = notebook(agent(spot), "1")
    started = spot.run("lab", session, "--detach", "--json")
    told = json.loads(started.stdout)
    lab = psutil.Process(told["pid"])
    before = read_lab(spot.storage, session)
    spot.daemon().kill()
    assert spot.run("daemon", "start").returncode == 0
    spot.ready()
    assert before is not None
    assert f"http://127.0.0.1:{before.gateway_port}" in spot.status()["listeners"]
    assert _get(_api(told, "/api/kernelspecs"))["kernelspecs"]
    assert json.loads(spot.run("lab", "--stop", session, "--json").stdout)["stopped"]
    lab.wait(LIMIT_S)
    assert not json.loads(spot.run("lab", "--stop", session, "--json").stdout)["stopped"]
    while spot.status()["listeners"]:
        signal.sigtimedwait([], 0.05)


def test_tokens_are_nobody_elses(spot: Place) -> None:
    session, _ = notebook(agent(spot), "1")
    with started(spot, session) as (_, told):
        record = read_lab(spot.storage, session)
        assert record is not None
        secrets = (record.token, record.gateway_token)
        lab = psutil.Process(told["pid"])
        seen = [*lab.cmdline(), *lab.environ().values()]
        logs = [spot.paths.log, *(spot.storage / "labs" / session).glob("*.log")]
        seen += [Path(log).read_text() for log in logs]
        assert not [secret for secret in secrets for text in seen if secret in text]
        home = spot.storage / "labs" / session
        assert home.stat().st_mode & 0o077 == 0
        for file in spot.storage.rglob("*"):
            if any(secret.encode() in _content(file) for secret in secrets):
                assert file.is_relative_to(home), file
        with pytest.raises(HTTPError, match="403"):
            _get(_api(told, "/api/kernelspecs").partition("?")[0])


def _content(file: Path) -> bytes:
    """What a file holds; nothing where it is none, or where the daemon has just put it away."""
    try:
        return file.read_bytes() if file.is_file() else b""
    except FileNotFoundError:
        return b""


def test_page_of_a_cell_finds_no_way_out_of_the_sandbox(spot: Place, tmp_path: Path) -> None:
    """What a cell shows runs as the person in Lab's page, so Lab neither installs nor starts anything."""
    session, _ = notebook(agent(spot), "1")
    language_server = tmp_path / "texlab"
    language_server.write_text("#!/bin/sh\n")
    language_server.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{spot.environment['PATH']}"
    with started(Place(spot.root, spot.environment | {"PATH": path}, spot.started), session) as (_, told):
        assert _get(_api(told, "/lsp/status"))["sessions"] == {}
        with pytest.raises(HTTPError, match="404"):
            _get(_api(told, "/api/terminals"))
        request = urllib.request.Request(  # noqa: S310  # our own, on loopback
            _api(told, "/lab/api/extensions"),
            data=json.dumps({"cmd": "install", "extension_name": "anything"}).encode(),
            method="POST",
            headers={"Authorization": f"token {urlsplit(told['url']).query.removeprefix('token=')}"},
        )
        with pytest.raises(HTTPError) as refused:
            urllib.request.urlopen(request, timeout=LIMIT_S)  # noqa: S310  # as above
        refused.value.close()


def test_files_beside_the_notebook_are_no_part_of_labs_program(spot: Place, tmp_path: Path) -> None:
    """The session's code may write them, and Lab is not confined."""
    session, path = notebook(agent(spot), "1")
    folder, trace = Path(path).parent, tmp_path / "trace"
    code = f"open({str(trace)!r}, 'a').write(__file__)\n"
    planted = [
        folder / name
        for name in ("tornado.py", "jupyter_config.py", "jupyter_server_config.py", "jupyter_lab_config.py")
    ]
    for file in planted:
        file.write_text(code)
    try:
        with started(spot, session) as (_, told):
            assert _get(_api(told, "/api/kernelspecs"))["kernelspecs"]
            assert not trace.exists(), trace.read_text()
    finally:
        for file in planted:
            file.unlink()


def test_link_in_the_notebooks_folder_leads_a_page_nowhere(spot: Place, tmp_path: Path) -> None:
    """The session's code may make one, and what it shows in Lab's page could go where it leads."""
    session, path = notebook(agent(spot), "1")
    folder = Path(path).parent / "linked"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "new.txt").symlink_to(tmp_path / "new.txt")
    (folder / "away").symlink_to(tmp_path)
    (folder / "own.txt").write_text("own")
    (folder / "within.txt").symlink_to("own.txt")
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / "own-checkpoint.txt").symlink_to(tmp_path / "checkpoint.txt")
    with started(spot, session) as (_, told):
        listed = _get(_api(told, "/api/contents/linked"))
        assert {one["name"] for one in listed["content"]} == {"own.txt", "within.txt"}
        assert _get(_api(told, "/api/contents/linked/within.txt"))["content"] == "own"
        for name in ("out.txt", "away/secret.txt"):
            for tree in ("/api/contents", "/files"):
                assert _status(told, "GET", f"{tree}/linked/{name}") in (403, 404)
        written = {"type": "file", "format": "text", "content": "written"}
        for name in ("out.txt", "new.txt", "away/new.txt"):
            assert _status(told, "PUT", f"/api/contents/linked/{name}", written) >= 400
        assert _status(told, "POST", "/api/contents/linked/own.txt/checkpoints") >= 400
        assert _status(told, "PUT", "/api/contents/linked/own.txt", written) == 200
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("secret.txt", "secret")]


def _status(told: dict[str, Any], method: str, path: str, body: dict[str, Any] | None = None) -> int:
    """What Lab's server says to a page that has its token."""
    request = urllib.request.Request(  # noqa: S310  # our own, on loopback
        _api(told, path),
        data=json.dumps(body or {}).encode() if method != "GET" else None,
        method=method,
        headers={"Authorization": f"token {urlsplit(told['url']).query.removeprefix('token=')}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:  # noqa: S310  # as above
            return int(answer.status)
    except HTTPError as refused:
        with refused:
            return refused.code


def test_missing_jupyterlab_is_told_with_the_command_that_adds_it(spot: Place) -> None:
    session, _ = notebook(agent(spot), "1")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_LAB, "lab", session],
        cwd=spot.root / "work",
        env={**spot.environment, "PATH": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 3
    assert "pip install 'cellwright[lab]'" in done.stderr


def test_jupyterlab_of_the_users_own_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "jupyter-lab"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jupyterlab", None)
    assert find_program() == [str(program)]


def test_lab_that_ends_at_once_is_told_with_its_last_words(spot: Place, tmp_path: Path) -> None:
    session, _ = notebook(agent(spot), "1")
    program = tmp_path / "jupyter-lab"
    program.write_text("#!/bin/sh\necho no space left >&2\nexit 4\n")
    program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_LAB, "lab", session],
        cwd=spot.root / "work",
        env={**spot.environment, "PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.returncode, "code 4: no space left" in done.stderr) == (3, True), done.stderr
    while spot.status()["listeners"]:
        signal.sigtimedwait([], 0.05)
