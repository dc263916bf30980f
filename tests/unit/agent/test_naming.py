from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.agent._notebook_names import Notebook, check_call, check_names, corrected

CURRENT = Notebook(
    "s-2345678", "20261116_093000_sales_analysis", "/data/20261116_093000_sales_analysis.ipynb"
)
OTHER = Notebook("s-bcdfghj", "20261115_080000_weather", None)
BRANCH = Notebook("s-kmnpqrs", "20261116_093000_sales_analysis-kmnpqrs")
ONE_WORD = Notebook("s-2345678", "20261116_093000_sales")
OWN_FILE = Notebook("s-2345678", "My Analysis")
KNOWN = (CURRENT, OTHER)


@pytest.mark.parametrize(
    "text",
    [
        "The total is 7.",
        "I added the cell to 20261116_093000_sales_analysis.",
        "See `20261116_093000_sales_analysis.ipynb` (session s-2345678).",
        "It is in notebooks/20261116_093000_sales_analysis.ipynb.",
        "Session s-2345678, cell 4f3a2b1c.",
        # Data, folders, variables, words.
        "I read 20261116_093000_export.csv and sales_analysis.csv.",
        "The result is in results/20261116_093001_sales_analysis.png.",
        "backup_20260101_120000.parquet has 12 columns.",
        "The run backup_20260101_120000 is the newest.",
        "The frame `sales_analysis` has 3 rows; sales_analysis.head() shows them.",
        "sales_analysis_20261116 = load()",
        "The column `sales_analysis` in the notebook is a number.",
        "A sales analysis in a notebook is what you asked for; the sales-analysis is done.",
        "This notebook runs from top to bottom.",
        "Your class-s-2345678x and the s-strings and dims-9999999 are words.",
        "The version is s-2 and the part s-123456789.",
        "Save it as .ipynb, or export notebooks (*.ipynb) to HTML.",
        "20261116_093000 was the time.",
        "See https://example.org/20261116_093000_sales_analyses/page.",
        "order_20261116_093000[0] and order_20261116_093000(x)",
    ],
)
def test_right_names_and_mere_words_are_left_alone(text: str) -> None:
    assert check_names(text, current=CURRENT, known=KNOWN) is None


@pytest.mark.parametrize(
    ("text", "mistake", "named"),
    [
        ("I made sales_analysis.ipynb.", "lost_time", "sales_analysis.ipynb"),
        ("It is in notebooks/sales_analysis.ipynb", "lost_time", "sales_analysis.ipynb"),
        ("The notebook sales_analysis has it.", "lost_time", "sales_analysis"),
        ("I added it to the `sales_analysis` notebook.", "lost_time", "sales_analysis"),
        ("Notebook: **sales_analysis**", "lost_time", "sales_analysis"),
        ("I made sales_analysis_20261116_093000.ipynb", "wrong_time", "sales_analysis_20261116_093000.ipynb"),
        ("See 20261116_093001_sales_analysis.", "wrong_time", "20261116_093001_sales_analysis"),
        ("See 20251116_093000_sales_analysis.ipynb!", "wrong_time", "20251116_093000_sales_analysis.ipynb"),
        ("The cell is in 20261116_093000_sales_analysys", "similar", "20261116_093000_sales_analysys"),
        ("Open `sales_analyses.ipynb`.", "similar", "sales_analyses.ipynb"),
        ("I made report.ipynb.", "unknown", "report.ipynb"),
        ("Done in session s-9999999.", "unknown", "s-9999999"),
        ("Done in session s-2345679.", "similar", "s-2345679"),
        ("Done in session s-bcdfghj.", "other", "s-bcdfghj"),
        ("I added it to 20261115_080000_weather.", "other", "20261115_080000_weather"),
        ("I added it to 20261115_080000_weather.ipynb.", "other", "20261115_080000_weather.ipynb"),
        ("I added it to weather.ipynb.", "lost_time", "weather.ipynb"),
    ],
)
def test_wrong_names_are_caught(text: str, mistake: str, named: str) -> None:
    correction = check_names(text, current=CURRENT, known=KNOWN)
    assert correction is not None
    assert (correction.mistake, correction.named) == (mistake, named)
    assert CURRENT.name in correction.message
    assert CURRENT.session_id in correction.message
    assert named in correction.message


def test_a_branch_is_not_the_notebook_that_it_grew_from() -> None:
    known = (CURRENT, BRANCH)
    assert check_names(f"It is in {BRANCH.name}.ipynb", current=BRANCH, known=known) is None
    correction = check_names(f"It is in {CURRENT.name}.", current=BRANCH, known=known)
    assert correction is not None
    assert correction.mistake == "other"
    # Taken back, the branch is no more.
    correction = check_names(f"It is in {BRANCH.name}.ipynb", current=CURRENT, known=[CURRENT])
    assert correction is not None


def test_others_may_be_named_beside_the_current_one_or_where_the_question_did() -> None:
    text = f"{CURRENT.name} has more rows than {OTHER.name}."
    assert check_names(text, current=CURRENT, known=KNOWN) is None
    text = f"{OTHER.name} has 3 cells; tutorial.ipynb has 9."
    assert check_names(text, current=CURRENT, known=KNOWN) is not None
    asked = f"What is in {OTHER.name} and in tutorial.ipynb?"
    assert check_names(text, current=CURRENT, known=KNOWN, asked=asked) is None


def test_notebooks_that_lie_in_the_working_directory_are_files() -> None:
    text = "I wrote copies/report.ipynb, and read 20200101_000000_sales_analysis.ipynb."
    files = ["copies/report.ipynb", "20200101_000000_sales_analysis.ipynb"]
    assert check_names(text, current=CURRENT, known=KNOWN, files=files) is None
    correction = check_names("old_report.ipynb", current=CURRENT, known=KNOWN, files=files)
    assert correction is not None
    assert correction.named == "old_report.ipynb"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("The notebook sales figures are in it.", False),
        ("The sales notebook is done.", False),
        ("This notebook's sales are up.", False),
        ("The notebook `sales` has it.", True),
        ("The `sales` notebook has it.", True),
        ("`sales` is a frame in this notebook.", False),
    ],
)
def test_a_name_of_one_word_counts_in_quotes_only(text: str, wrong: bool) -> None:
    assert (check_names(text, current=ONE_WORD, known=[ONE_WORD]) is not None) is wrong


def test_a_notebook_of_the_users_own_needs_no_time() -> None:
    for text in (
        "It is in My Analysis.ipynb.",
        "The notebook My Analysis has it.",
        "the `My Analysis` notebook",
    ):
        assert check_names(text, current=OWN_FILE, known=[OWN_FILE]) is None
    correction = check_names("I made 20261116_093000_my_analysis.ipynb", current=OWN_FILE, known=[OWN_FILE])
    assert correction is not None


def test_without_a_notebook_every_name_is_wrong() -> None:
    correction = check_names("I made 'x.ipynb'", current=None, known=[OTHER])
    assert correction is not None
    assert "notebook_create" in correction.message
    assert OTHER.name in correction.message


@pytest.mark.parametrize(
    ("text", "better"),
    [
        ("See sales_analysis.ipynb", f"See {CURRENT.name}.ipynb"),
        ("See 20251116_093000_sales_analysis.", f"See {CURRENT.name}."),
        (
            "The notebook `sales_analysis` has a frame sales_analysis.",
            f"The notebook `{CURRENT.name}` has a frame sales_analysis.",
        ),
    ],
)
def test_a_wrong_time_is_mended_without_a_model(text: str, better: str) -> None:
    correction = check_names(text, current=CURRENT, known=KNOWN)
    assert correction is not None
    assert corrected(text, correction) == better
    assert check_names(better, current=CURRENT, known=KNOWN) is None


@pytest.mark.parametrize("text", ["report.ipynb", "s-bcdfghj", "weather.ipynb", "sales_analyses.ipynb"])
def test_what_is_not_certain_is_left_to_the_model(text: str) -> None:
    correction = check_names(text, current=CURRENT, known=KNOWN)
    assert correction is not None
    assert corrected(text, correction) is None


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"session_id": None},
        {"session_id": " current "},
        {"session_id": "s-2345678"},
        {"session_id": "20261116_093000_sales_analysis.ipynb"},
        {"session_id": "sales_analysis"},
        {"notebook": "sales analysis"},
        {"session_id": CURRENT.path},
        {"content": "session_id = 's-9999999'"},
        {"session_ids": ["s-2345678"]},
        {"session_id": 7},
    ],
)
def test_calls_that_mean_the_current_notebook_pass(arguments: dict[str, Any]) -> None:
    assert check_call(arguments, current=CURRENT, known=KNOWN) is None


@pytest.mark.parametrize(
    ("arguments", "mistake"),
    [
        ({"session_id": "s-9999999"}, "unknown"),
        ({"session_id": "s-bcdfghj"}, "other"),
        ({"session_id": "weather"}, "lost_time"),
        ({"session_id": "20261115_080000_weather"}, "other"),
        ({"session_id": "20251116_093000_sales_analysis"}, "wrong_time"),
        ({"session_id": "math notebook"}, "unknown"),
        ({"session_ids": ["s-2345678", "s-9999999"]}, "unknown"),
        ({"current_notebook": "sales_analysys"}, "similar"),
    ],
)
def test_calls_that_mean_another_notebook_or_none_are_caught(arguments: dict[str, Any], mistake: str) -> None:
    correction = check_call(arguments, current=CURRENT, known=KNOWN)
    assert correction is not None
    assert correction.mistake == mistake
    assert CURRENT.session_id in correction.message


def test_another_notebook_may_be_read_and_used_where_it_was_asked_for() -> None:
    arguments = {"session_id": OTHER.session_id}
    assert check_call(arguments, current=CURRENT, known=KNOWN, reads=True) is None
    assert check_call(arguments, current=CURRENT, known=KNOWN, asked=f"Add a cell to {OTHER.name}") is None
    unknown = {"session_id": "s-9999999"}
    assert check_call(unknown, current=CURRENT, known=KNOWN, reads=True) is not None


def test_a_very_long_word_is_gone_through_once() -> None:
    long = "ab_-" * 25_000
    text = f"{long} {long}.ipynb {long}_20261116_093000 s-{long} {long}.csv"
    assert check_names(text, current=CURRENT, known=KNOWN) is None
    assert check_call({"session_id": long}, current=CURRENT, known=KNOWN) is not None


words = st.text(string.ascii_letters + " _-.,`'\"()\n äß数", max_size=120)


@given(words, words)
def test_words_around_a_right_name_raise_no_alarm(before: str, after: str) -> None:
    for name in (CURRENT.name, f"{CURRENT.name}.ipynb", CURRENT.session_id):
        # The stem of the name is of these letters too, and by chance may be called a notebook.
        text = f"{before} {name} {after}"
        if "sales_analysis" not in before + after and ".ipynb" not in before + after:
            assert check_names(text, current=CURRENT, known=KNOWN) is None


@given(words, words, st.integers(2000, 2099), st.integers(0, 235959))
def test_a_wrong_time_is_found_among_any_words(before: str, after: str, year: int, time: int) -> None:
    wrong = f"{year}0101_{time:06}_sales_analysis"
    correction = check_names(f"{before} {wrong} {after}", current=CURRENT, known=KNOWN)
    assert correction is not None
