"""Where settings come from, which source is stronger, and what is said of those that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cellwright.cli._serve import open_browser
from cellwright.settings import (
    OutsideRoots,
    Settings,
    SettingsRefused,
    examine_settings,
    fenced,
    load_settings,
)
from cellwright.settings.paths import find_storage, write_private
from tests.system.daemon.conftest import Place

SRCBOOK = {
    "name": "srcbook-notebook",
    "version": "1.0.0",
    "options": {
        "maxSessions": 7,
        "sessionTimeout": 1_800_000,
        "executionTimeout": 45_000,
        "maxMemoryPerSession": "512MB",
        "allowNetworkAccess": False,
        "persistSessions": False,
        "storageDirectory": "./kept",
    },
}


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No settings but those of the test."""
    for name in list(__import__("os").environ):
        if name.startswith(("CELLWRIGHT_", "XDG_")):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project" / "deep" / "inside"
    directory.mkdir(parents=True)
    return directory


def write_user(home: Path, text: str) -> Path:
    path = home / ".config" / "cellwright" / "cellwright.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def write_project(project: Path, text: str) -> Path:
    path = project.parent.parent / "cellwright.toml"
    path.write_text(text)
    return path


def test_each_source_is_stronger_than_the_one_before(
    own_home: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings(project).max_sessions == Settings().max_sessions
    srcbook = tmp_path / "srcbook-mcp.json"
    srcbook.write_text(json.dumps(SRCBOOK))
    write_user(own_home, f'srcbook_file = "{srcbook}"\n')
    assert load_settings(project).max_sessions == 7
    write_user(own_home, f'srcbook_file = "{srcbook}"\nmax_sessions = 8\n')
    assert load_settings(project).max_sessions == 8
    write_project(project, "max_sessions = 9\n")
    assert load_settings(project).max_sessions == 9
    monkeypatch.setenv("CELLWRIGHT_MAX_SESSIONS", "11")
    assert load_settings(project).max_sessions == 11
    assert load_settings(project, max_sessions=12).max_sessions == 12


def test_every_name_of_a_srcbook_file_is_read(tmp_path: Path, project: Path) -> None:
    file = tmp_path / "srcbook-mcp.json"
    for content in (SRCBOOK, SRCBOOK["options"]):
        file.write_text(json.dumps(content))
        found = load_settings(project, srcbook_file=str(file))
        assert (found.max_sessions, found.session_idle_s, found.cell_timeout_s) == (7, 1800, 45)
        assert (found.max_session_memory, found.allow_network, found.persist_sessions) == (
            512 * 1024**2,
            False,
            False,
        )
        assert found.storage == tmp_path / "kept"


def test_only_a_setting_that_lifts_the_limits_is_called_dangerous(tmp_path: Path, project: Path) -> None:
    file = tmp_path / "srcbook-mcp.json"
    file.write_text(json.dumps(SRCBOOK))
    assert examine_settings(project, srcbook_file=str(file)) == [], "all of these are kept"
    (said,) = examine_settings(project, srcbook_file=str(file), unsafe_no_sandbox=True)
    assert said.where == "unsafe_no_sandbox"
    assert "memory" in said.message
    assert "network" in said.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_session = 5\n", "max_sessions"),
        ("maxSessions = 5\n", "max_sessions"),
        ('max_sessions = "many"\n', "max_sessions"),
        ("cell_timeout_s = -1\n", "cell_timeout_s"),
        ("max_sessions = \n", "not TOML"),
    ],
)
def test_a_file_with_a_wrong_name_or_value_is_refused_with_the_right_one(
    project: Path, text: str, said: str
) -> None:
    path = write_project(project, text)
    with pytest.raises(Exception, match=said) as refused:
        load_settings(project)
    assert str(path) in str(refused.value)
    assert any(said in problem.message + problem.fix + problem.where for problem in examine_settings(project))


def test_a_mistyped_variable_is_found_with_the_nearest_right_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELLWRIGHT_MAX_SESSION", "5")
    (problem,) = examine_settings()
    assert problem.where == "CELLWRIGHT_MAX_SESSION"
    assert "CELLWRIGHT_MAX_SESSIONS" in problem.fix
    monkeypatch.setenv("CELLWRIGHT_MAX_CELLS", "lots")
    with pytest.raises(SettingsRefused, match="CELLWRIGHT_MAX_CELLS"):
        load_settings()


def test_a_variable_that_is_no_list_is_refused_by_name_and_hosts_need_no_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CELLWRIGHT_ALLOWED_HOSTS", "localhost 127.0.0.1")
    assert load_settings().allowed_hosts == ("localhost", "127.0.0.1")
    monkeypatch.setenv("CELLWRIGHT_PRELOAD", "numpy")
    with pytest.raises(SettingsRefused, match="CELLWRIGHT_PRELOAD: is no JSON"):
        load_settings()


def test_paths_in_a_file_are_meant_from_where_it_lies(own_home: Path, project: Path) -> None:
    write_project(project, 'storage = "../state"\nroots = ["notes", "deep"]\n')
    found = load_settings(project)
    assert found.storage == project.parents[2] / "state"
    assert found.roots == (project.parents[1] / "notes", project.parents[1] / "deep")
    assert find_storage(str(project)) == str(found.storage), "the pump looks where the daemon keeps things"
    write_user(own_home, 'storage = "~/elsewhere"\n')
    write_project(project, "")
    assert find_storage(str(project)) == str(load_settings(project).storage) == str(own_home / "elsewhere")


def test_a_project_cannot_let_itself_out(project: Path) -> None:
    write_project(project, 'roots = ["/"]\nallowed_hosts = ["evil.example"]\n')
    found = load_settings(project)
    assert found.roots == ()
    assert found.allowed_hosts == ()
    assert {problem.where.rpartition(" ")[2] for problem in examine_settings(project)} == {
        "roots",
        "allowed_hosts",
    }


@pytest.mark.parametrize(
    "path", ["../outside.ipynb", "/etc/passwd", "notes/../../outside", "link/x.ipynb", "~/x.ipynb", "a\0b"]
)
def test_a_path_that_climbs_out_is_refused(project: Path, tmp_path: Path, path: str) -> None:
    (project / "link").symlink_to(tmp_path)
    with pytest.raises(OutsideRoots):
        fenced(path, [project])


def test_a_path_inside_is_given_back_whole(project: Path) -> None:
    assert fenced("notes/a.ipynb", [project]) == project / "notes" / "a.ipynb"
    other = project.parent / "other"
    assert fenced(str(other / "b.ipynb"), [project, other]) == other / "b.ipynb"


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELLWRIGHT_TOKEN", "s" * 40)
    assert "s" * 40 not in repr(load_settings())
    monkeypatch.setenv("CELLWRIGHT_TOKEN", "guessable")
    with pytest.raises(SettingsRefused) as refused:
        load_settings()
    assert "guessable" not in str(refused.value)


def test_doctor_lists_what_is_wrong_with_the_settings(place: Place) -> None:
    place.environment["CELLWRIGHT_MAX_SESSON"] = "5"
    place.environment["CELLWRIGHT_UNSAFE_NO_SANDBOX"] = "true"
    done = place.run("doctor", "--json")
    findings: list[dict[str, Any]] = json.loads(done.stdout)
    said = {finding["what"]: finding for finding in findings}
    assert "CELLWRIGHT_MAX_SESSIONS" in said["setting CELLWRIGHT_MAX_SESSON"]["fix"]
    assert "whatever this user can" in said["setting unsafe_no_sandbox"]["detail"]
    assert said["isolation"]["verdict"] == "failed"
    assert done.returncode == 1


def test_flags_are_stronger_than_variables(place: Place) -> None:
    place.environment["CELLWRIGHT_MAX_SESSIONS"] = "many"
    assert place.run("daemon", "start").returncode == 3
    assert place.run("daemon", "start", "--set", "max_sessions=3").returncode == 0
    assert place.run("daemon", "start", "--set", "nothing").returncode == 2


def test_a_private_file_is_replaced_whole_and_is_never_anybody_elses_to_read(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text("older")
    path.chmod(0o644)
    older = path.open()
    write_private(str(path), b"newer")
    assert path.read_bytes() == b"newer"
    assert path.stat().st_mode & 0o777 == 0o600
    assert older.read() == "older", "who has it open reads it to its end"
    older.close()
    assert [one.name for one in tmp_path.iterdir() if one.is_file()] == ["record.json"]


def test_private_file_that_cannot_be_replaced_leaves_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(IsADirectoryError):
        write_private(str(tmp_path / "there"), b"new")
    assert not [one.name for one in tmp_path.iterdir() if one.is_file()]


def test_link_is_told_where_no_browser_can_be_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_browser("http://127.0.0.1/", tmp_path / "gone" / "open.html")
    assert "open the address above" in capsys.readouterr().err


def test_variables_of_jlab_mcp_are_weaker_than_our_own_and_unknown_ones_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {
        "RUN_MODE": "local",
        "SLURM_PARTITION": "gpu",
        "SLURM_CPUS": "8",
        "SLURM_MODULES": "cuda",
        "NOTEBOOK_DIR": "experiments",
        "PORTS": "1",
    }
    for name, value in said.items():
        monkeypatch.setenv(f"JLAB_MCP_{name}", value)
    monkeypatch.setenv("CELLWRIGHT_SLURM_PARTITION", "big")
    settings = load_settings(tmp_path)
    assert (settings.run_mode, settings.slurm_partition, settings.slurm_cpus) == ("local", "big", 8)
    assert settings.slurm_modules == ("cuda",)
    assert settings.notebook_dir == Path("experiments")
    assert "JLAB_MCP_PORTS" in [problem.where for problem in examine_settings(tmp_path)]
    monkeypatch.setenv("JLAB_MCP_SLURM_CPUS", "many")
    with pytest.raises(SettingsRefused, match="JLAB_MCP_SLURM_CPUS"):
        load_settings(tmp_path)
