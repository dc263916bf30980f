"""What a person tries first: the demos and the tutorial."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

from tests.system.daemon.conftest import Place

SIGN_IN = re.compile(r"^http://127\.0\.0\.1:\d+/enter\?code=\S+$", re.MULTILINE)


def test_the_demo_repairs_a_plan_and_ends_with_a_link_to_its_page(place: Place) -> None:
    done = place.run("demo")
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.count("repaired: ") >= 3
    assert "North sold most" in done.stdout
    assert "verified: True" in done.stdout
    (link,) = SIGN_IN.findall(done.stdout)
    with urlopen(link) as answer:  # noqa: S310  # this machine's own
        assert "/sessions/" in answer.read().decode()
        assert "set-cookie" in answer.headers
    (folder,) = (place.root / "work" / "notebooks").glob("demo-*")
    assert (folder / "out" / "revenue_by_region.png").is_file()
    assert (folder / "sales.plan.md").is_file()


def test_the_agent_answers_a_scripted_models_question_without_a_key(place: Place) -> None:
    done = place.run("demo", "--agent")
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.splitlines()[-1] == "North sold the most units: 703."
    assert "Fixed by rule" in done.stderr
    assert "(verified)" in done.stderr
    assert "warning" not in done.stderr


WITHOUT_PAGE = "import sys; sys.modules['jinja2'] = None; from cellwright.cli import main; main()"


def commands_of(notebook: Path) -> list[list[str]]:
    """The command lines that a notebook tells people to type, in order."""
    text = "\n".join("".join(cell["source"]) for cell in json.loads(notebook.read_text())["cells"])
    return [
        shlex.split(line.removeprefix("$ cellwright "))
        for line in text.splitlines()
        if line.startswith("$ cellwright ")
    ]


def test_the_tutorial_opens_three_notebooks_that_run_and_whose_commands_do_what_they_say(
    place: Place,
) -> None:
    opened = place.run("tutorial", "--json")
    assert opened.returncode == 0, opened.stderr
    sessions: dict[str, str] = json.loads(opened.stdout)["sessions"]
    first, agent, branches = sessions
    files = [Path(path) for path in sessions.values()]
    assert [path.parent for path in files] == [place.root / "work" / "cellwright-tutorial"] * 3
    # By the names that the notebooks themselves tell people to type.
    ran = place.run("exec", "1-first-notebook")
    assert ran.returncode == 0, ran.stderr
    assert "Not yet: try max" in ran.stdout
    assert "Bergen,5.75" in ran.stdout
    assert place.run("verify", "1-first-notebook").returncode == 0
    assert "Not yet: no cell has made `longest`" in place.run("exec", "2-an-agent-beside-you").stdout
    place.run("exec", agent, "--code", "longest = max(rivers, key=lambda river: river[2])[0]")
    assert "Right: the agent's state is yours" in place.run("exec", "2-an-agent-beside-you").stdout
    assert place.run("exec", branches).returncode == 0
    said = [place.run(*arguments) for arguments in commands_of(files[2])]
    assert [done.stderr for done in said if done.returncode] == []
    assert (said[1].stdout, said[3].stdout) == ("0\n", "3\n")
    one, two = said[4].stdout.split()
    place.run("exec", two, "--code", "price = {name: round(p) - 0.01 for name, p in price.items()}")
    assert "price" in place.run("branch", "3-checkpoints-and-branches", "--compare").stdout
    assert place.run("session", "adopt", two).stdout.strip() == branches
    assert "188.99" in place.run("exec", branches, "--code", "print(price)").stdout
    # What somebody has worked on stays, and whoever has no page is told how to go on.
    before = files[0].read_bytes()
    again = subprocess.run(
        [sys.executable, "-c", WITHOUT_PAGE, "tutorial"],
        capture_output=True,
        text=True,
        check=True,
        env=place.environment,
        cwd=place.root / "work",
    )
    assert f"cellwright exec {first}" in again.stderr
    assert "cellwright[web]" in again.stderr
    assert files[0].read_bytes() == before
    assert one
