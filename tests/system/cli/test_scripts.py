"""``cellwright exec --once``: the script's streams and exit code are the command's."""

from __future__ import annotations

import json

import pytest

from tests.system.daemon.conftest import Place
from tests.waiting import LIMIT_S


def test_streams_and_exit_code_are_the_scripts(shared: Place) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(4)"
    done = shared.run("exec", "--once", "--code", code)
    assert (done.returncode, done.stdout, done.stderr) == (4, "out\n", "err\n")


def test_a_script_comes_from_a_file_or_from_stdin_and_has_a_directory_that_lasts(shared: Place) -> None:
    script = shared.root / "make.py"
    script.write_text("open('kept.txt', 'w').write('kept')")
    done = shared.run("exec", "--once", str(script), "--dir", "verbs")
    assert (done.returncode, done.stdout) == (0, "")
    assert "file: verbs/kept.txt (text, 4 bytes)" in done.stderr
    again = shared.run("exec", "--once", "-", "--dir", "verbs", given="print(open('kept.txt').read())")
    assert (again.returncode, again.stdout) == (0, "kept\n")


def test_a_killed_script_exits_as_a_shell_tells_it(shared: Place) -> None:
    done = shared.run("exec", "--once", "--code", "while True: pass", "--timeout", "1")
    assert done.returncode == 128 + 9
    assert "Stopped after 1 s" in done.stderr


def test_json_has_every_field(shared: Place) -> None:
    done = shared.run("exec", "--once", "--code", "print(1)", "--json")
    found = json.loads(done.stdout)
    assert (found["success"], found["stdout"], found["returnCode"], found["files"]) == (True, "1\n", 0, [])


def test_what_is_for_one_way_of_running_is_refused_in_the_other(shared: Place) -> None:
    for arguments, said in {
        ("exec",): "or run a script with --once",
        ("exec", "some", "--package", "pandas"): "this is for --once",
        ("exec", "--once"): "give a file, or --code",
        ("exec", "--once", "nothere.py"): "nothere.py: No such file or directory; a session's cells",
        ("exec", "--once", "some.py", "c1"): "a script has no cells",
        ("exec", "--once", "--code", "1", "--detach"): "is waited for",
        ("exec", "--once", "--code", "1", "--on-error", "rollback"): "nothing to go back to",
        ("exec", "--once", "--code", "1", "--language", "r"): "one of python, typescript, javascript",
    }.items():
        done = shared.run(*arguments)
        assert done.returncode == 2
        assert said in " ".join(done.stderr.replace("│", " ").split())


def test_the_next_step_is_told_in_options(shared: Place) -> None:
    raised = "raise ModuleNotFoundError(\"No module named 'bs4'\")"
    for code, said in {raised: "--package beautifulsoup4", "open('x.csv')": "name one by --dir"}.items():
        done = shared.run("exec", "--once", "--code", code)
        assert done.returncode == 1
        assert said in done.stderr.splitlines()[-1]


@pytest.mark.matrix  # `test_daemon` kills one in use
def test_a_daemon_that_ends_amid_a_run_is_told_with_what_came_and_the_next_step(place: Place) -> None:
    code = "import time; print('begun', flush=True); time.sleep(50)"
    running = place.start("exec", "--once", "--code", code)
    assert running.stdout is not None
    assert running.stdout.readline() == b"begun\n"
    place.daemon().kill()
    _, told = running.communicate()
    assert running.returncode == 3
    assert b"The daemon ended before it answered" in told
    assert b"Run it again" in told


def test_whoever_stops_reading_ends_the_script_without_a_word(shared: Place) -> None:
    code = "import time\nwhile True: print('again', flush=True); time.sleep(0.05)"
    process = shared.start("exec", "--once", "--code", code)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"again\n"
    process.stdout.close()
    assert process.wait(LIMIT_S) == 1
    assert process.stderr.read() == b""


def test_a_command_ends_when_nobody_reads_it_any_more(shared: Place) -> None:
    code = "import time; print('begun', flush=True); time.sleep(50)"
    process = shared.start("exec", "--once", "--code", code)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    process.stdout.close()  # as `| head -1` does
    assert process.wait(LIMIT_S) == 130, "it was stopped, and did not run out of time"
