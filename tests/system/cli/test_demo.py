"""What a person tries first: the demos."""

from __future__ import annotations

import re
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
    assert "Mended by rule" in done.stderr
    assert "(verified)" in done.stderr
    assert "warning" not in done.stderr
