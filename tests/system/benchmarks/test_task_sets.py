"""Public sets of tasks are read as they are written, and answers are compared as their papers say. Made-up sets."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datatasks import dabench, dseval
from datatasks.answers import find_answers, same_answer, score, settle
from datatasks.builtin import read as read_builtin
from datatasks.sources import SourceUnusable, tasks_from
from datatasks.tasks import Step, Task, missing_packages, stage, wants_of

PROBLEMS = '''"""Where it was taken from."""

# %%
import pandas as pd

# %%
"""
question: |
  Load `inputs/fruit.csv` as `fruit`.
validator:
  namespace_check:
    fruit:
"""

fruit = pd.read_csv("inputs/fruit.csv")

# %%
"""
question: How many are there?
validator:
  template: basic
  result:
    ignore_order: true
execution:
  max_time: 2
"""

len(fruit)
'''


@pytest.fixture
def dabench_set(tmp_path: Path) -> Path:
    data = tmp_path / "repository" / "examples" / "data"
    (data / "da-dev-tables").mkdir(parents=True)
    (data / "da-dev-tables" / "t.csv").write_text("a\n1\n")
    about = {
        "constraints": "Round.",
        "format": "@mean[x]",
        "file_name": "t.csv",
        "level": "easy",
        "concepts": ["Mean"],
    }
    questions = [{"id": 3, "question": "The mean?", **about}, {"id": 4, "question": "Unlabelled?", **about}]
    (data / "da-dev-questions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in questions))
    (data / "da-dev-labels.jsonl").write_text(
        json.dumps({"id": 3, "common_answers": [["mean", "1.00"]]}) + "\n"
    )
    return tmp_path / "repository"


@pytest.fixture
def dseval_set(tmp_path: Path) -> Path:
    folder = tmp_path / "clone" / "benchmarks" / "fruit"
    (folder / "_inputs").mkdir(parents=True)
    (folder / "_inputs" / "fruit.csv").write_text("name\napple\npear\n")
    (folder / "_inputs" / "other.csv").write_text("not asked for\n")
    (folder / "_manifest.yaml").write_text("name: Fruit\nversion: 1\n")
    (folder / "count.py").write_text(PROBLEMS)
    (folder / "broken.py").write_text('# %%\n"""\nquestion: [\n"""\n1\n')
    return tmp_path / "clone"


def test_dabench_questions_carry_constraints_format_file_and_labels(
    dabench_set: Path, tmp_path: Path
) -> None:
    found = tasks_from(str(dabench_set), tmp_path)
    (task,) = found.tasks
    assert (found.name, task.id, task.level, task.concepts) == ("dabench", "3", "easy", ("Mean",))
    assert all(part in task.steps[0].question for part in ("The mean?", "Round.", "t.csv", "@mean[x]"))
    assert task.steps[0].answers == {"mean": "1.00"}
    assert not task.solved
    assert found.notes == ("1 questions have no label",)


def test_dseval_cells_are_context_or_questions_with_their_rules(dseval_set: Path, tmp_path: Path) -> None:
    found = tasks_from(str(dseval_set), tmp_path)
    (task,) = found.tasks
    context, load, count = task.steps
    assert (context.question, context.cells) == ("", ("import pandas as pd",))
    assert set(load.rules) == {"crash", "namespace_intact", "result", "namespace_check", "execution"}
    assert count.rules["result"] == {"ignore_order": True}
    assert "namespace_intact" not in count.rules
    assert (task.questions, task.solved, list(task.files)) == ((1, 2), True, ["inputs/fruit.csv"])
    assert "fruit/broken cannot be read" in found.notes[0]


def test_a_set_is_cloned_once_from_an_address(dabench_set: Path, tmp_path: Path) -> None:
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *command], cwd=dabench_set, check=True)
    address = dabench_set.as_uri()
    assert len(tasks_from(address, tmp_path, cache=tmp_path / "cache").tasks) == 1
    subprocess.run(["rm", "-rf", str(dabench_set)], check=True)
    assert len(tasks_from(address, tmp_path, cache=tmp_path / "cache").tasks) == 1


@pytest.mark.parametrize("wanted", ["nowhere", "file:///nowhere/at/all"])
def test_a_source_that_is_none_says_where_sets_are(wanted: str, tmp_path: Path) -> None:
    with pytest.raises(SourceUnusable):
        tasks_from(wanted, tmp_path, cache=tmp_path / "cache")
    with pytest.raises(SourceUnusable, match="InfiAgent"):
        tasks_from(str(tmp_path), tmp_path)


def test_what_a_task_lacks_is_told(tmp_path: Path) -> None:
    assert missing_packages(["import no_such_module.part, json", "from pandas import DataFrame"]) == [
        "no_such_module"
    ]
    task = Task("t", (Step("q", ("import no_such_module",)),), {"inputs/a.csv": tmp_path / "a.csv"})
    assert wants_of(task) == "no file inputs/a.csv"
    (tmp_path / "a.csv").write_text("a\n")
    assert wants_of(task) == "needs no_such_module"
    assert (stage(task, tmp_path / "work") / "inputs" / "a.csv").read_text() == "a\n"


def test_a_sample_is_taken_from_the_whole_set(tmp_path: Path) -> None:
    own = read_builtin(tmp_path)
    assert [task.id for task in own.first(3).tasks] == [own.tasks[at].id for at in (0, 5, 10)]
    assert own.first(None) is own
    assert own.first(99) is own


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [("34.650", "34.65"), ("1,234.5", "1234.5"), ("Not Normal", "not normal"), ('"Yes"', "yes"), ("12%", "12"),
     ("[Kuwait,  Saudi Arabia]", "Kuwait, Saudi Arabia"), ("9.03, 9.00", "9.03,9.0"), ("\N{MINUS SIGN}0.5", "-0.5"), ("", "")],
)  # fmt: skip
def test_answers_that_only_look_different_are_the_same(given_value: str, expected: str) -> None:
    assert same_answer(given_value, expected)


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [
        ("34.6", "34.65"),
        ("not normal", "normal"),
        ("1,2,3", "1,2"),
        ("", "0"),
        ("nan", "nano"),
        ("b, a", "a, b"),
    ],
)
def test_answers_that_are_different_are_not_the_same(given_value: str, expected: str) -> None:
    assert not same_answer(given_value, expected)


def test_answers_with_brackets_of_their_own_are_read_both_ways() -> None:
    assert find_answers("@rows[[1, 2], [3]] and @Mean [5]") == {
        "rows": ("[1, 2], [3]", "[1, 2"),
        "mean": ("5",),
    }
    assert find_answers("@x[1] then @x[2]") == {"x": ("2",)}


def test_scores_are_by_question_by_part_and_proportional() -> None:
    settled = [settle("@a[1] @b[3]", {"a": "1", "b": "2"}), settle("@c[x]", {"c": "X"})]
    scores = score(settled)
    assert (scores.questions, scores.by_question, scores.proportional) == (2, 0.5, 0.75)
    assert scores.by_part == pytest.approx(2 / 3)
    assert score([]).questions == 0


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_][a-zA-Z0-9_]{0,8}", fullmatch=True),
        st.floats(-1e9, 1e9).map("{:.3f}".format),
        max_size=5,
    )
)
def test_what_is_written_in_the_format_is_found_right(answers: dict[str, str]) -> None:
    lowered = {name.lower(): value for name, value in answers.items()}
    text = " ".join(f"@{name}[{value}]" for name, value in lowered.items())
    assert all(settle(f"So: {text}.", lowered).values())


def test_adapters_find_nothing_where_there_is_nothing(tmp_path: Path) -> None:
    assert dabench.find(tmp_path) is None
    assert dseval.find(tmp_path) is None
