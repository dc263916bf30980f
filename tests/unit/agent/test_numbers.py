"""Numbers of an answer, traced to outputs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.agent.evidence.numbers import MARK, Evidence, read_numbers, rests_on_output, trace_numbers

OUTPUT = Evidence(
    "cell one",
    "rows 1234\nmean 12.3456\nshare 0.4567\nchange -5.25\ntiny 1.5e-06\nrevenue 1234567.8\n"
    "growth 7.5%\ncities: Oslo 48, Rome 93\npages 1,048,576\ncounts [12,345, 678]\nslope -0.031",
)


@pytest.mark.parametrize(
    "text",
    [
        "There are 1,234 rows.",
        "There are 1234 rows.",
        "There are 1\u202f234 rows, or 1 234.",
        "The mean is 12.35.",
        "The mean is 12.3, nearly 12.",
        "The mean is **12.3456**.",
        "The mean is 12,35.",
        "A share of 45.67%.",
        "A share of 46 %, or 0.457.",
        "It is 45.7 percent.",
        "It rose to 46 per cent.",
        "Sales fell by 5.25 points.",
        "Sales were down 5.3 points.",
        "A decrease of 5 points.",
        "The change is -5.25.",
        "The change is \u22125.3.",
        "It is 1.5e-6, that is 1.5 \u00d7 10^-6.",
        "Revenue is $1,234,568.",
        "Revenue is $1.23 million.",
        "Revenue is 1.2M.",
        "Revenue is €1.2 million.",
        "Revenue is 1235k.",
        "Revenue is 1,235 thousand.",
        "About 1,200 rows.",
        "Roughly 1.2 thousand rows.",
        "It grew by 7.5%, a factor of 0.075.",
        "Between 48 and 93.",
        "It is 48\u201393.",
        "From 48-93 in all.",
        "The ratio is 48:93.",
        "48/93 of them.",
        "It is 48/93.",
        "There are 1,048,576 pages.",
        "Of 12 and 345 and 678.",
        "| city | n |\n|---|---|\n| Oslo | 48 |",
        "See [the 48 rows](https://example.org/999).",
        "n=48, mean=12.3",
        "The slope is slightly negative (0.031).",
    ],
)
def test_a_number_that_an_output_has_is_traced(text: str) -> None:
    traced = trace_numbers(text, [OUTPUT])
    assert traced.untraced == ()
    assert traced.marked == text
    assert traced.numbers
    assert {number.source for number in traced.numbers} == {"cell one"}


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("There are 1,235 rows.", f"There are 1,235{MARK} rows."),
        ("The mean is 12.34.", f"The mean is 12.34{MARK}."),
        ("The mean is 12.34567.", f"The mean is 12.34567{MARK}."),
        ("A share of 45.6%.", f"A share of 45.6%{MARK}."),
        ("The change is 5.25.", f"The change is 5.25{MARK}."),  # its sign is wrong
        ("The total is -1,234.", f"The total is -1,234{MARK}."),
        ("Revenue is $1.3 million.", f"Revenue is $1.3 million{MARK}."),
        ("Revenue is 2k.", f"Revenue is 2k{MARK}."),
        ("There are 1,200 rows.", f"There are 1,200{MARK} rows."),  # nobody says that it is about so many
        ("That is 45 more than Oslo.", f"That is 45{MARK} more than Oslo."),  # 93 - 48, which nobody computed
        ("**77**", f"**77{MARK}**"),
        ("77 here and 77 there", f"77{MARK} here and 77 there"),
        ("10\u201320% of them", f"10{MARK}\u201320%{MARK} of them"),
        ("[77 rows](https://example.org/1)", f"[77 rows](https://example.org/1){MARK}"),
        ("The ratio is 48:94.", f"The ratio is 48:94{MARK}."),
        ("| Oslo | 49 |", f"| Oslo | 49{MARK} |"),
        ("It cost $2,023.", f"It cost $2,023{MARK}."),
        ("2000 rows", f"2000{MARK} rows"),
        ("3.7x faster", f"3.7x{MARK} faster"),
        ("It took 77ms.", f"It took 77ms{MARK}."),
        ("Is it -77?", f"Is it -77{MARK}?"),
        ("p = 0.0321", f"p = 0.0321{MARK}"),
    ],
)
def test_a_number_that_no_output_has_is_marked_once(text: str, marked: str) -> None:
    assert trace_numbers(text, [OUTPUT]).marked == marked


@pytest.mark.parametrize(
    "text",
    [
        "In 2023 and since the 1990s, from 2019\u20132022 and in 2023/24.",
        "On 2024-05-17, 17.05.2024, 5/17/2024, May 17, 2024 and 17 May.",
        "On 3rd March at 12:30, 12:30:05 or 5 pm; at 2026-11-16T02:49:23Z.",
        "The 1st, 2nd, 3rd and 95th percentile.",
        "The 99.9th percentile, 24/7.",
        "three of them, twice, a dozen",
        "1. First\n2) Second\n   3. Third\n- 4. Fourth",
        "# 5 findings\n\n## 6. More",
        "Findings 7\n==========\n",
        "Use `head(77)` and ``x = 78``.",
        "```python\nprint(79)\n```",
        "~~~\n80\n~~~",
        "```\n81",
        "See [the notebook](cellwright://notebooks/77) and https://example.org/78?x=79.",
        "![figure 77](chart-78.png)",
        "Notebook sales_20261116_024923.ipynb, cell 9f86d081 and x-7bq8rq325n.",
        "20261116_0249 and 20261116-024923",
        "Cell 7, steps 8 and 9, Figure 10, Table 11, option 12, version 3.11.4, #77.",
        "Q3, H2, GPT-4, covid-19, x2, B12, v1.2.3, Python 3.11",
        "a 95% confidence interval at the 5% level, p < 0.05",
        "a 30-day window with 5-fold validation",
        "<img width=77>",
        "Sources [77] and [^78].",
        "2023 sales rose.",
        "data/2023-sales.csv and 77.csv",
    ],
)
def test_what_is_no_finding_is_not_counted(text: str) -> None:
    assert [number.text for number in read_numbers(text)] == []
    assert trace_numbers(text, []).marked == text


def test_what_the_asker_gave_counts_as_given() -> None:
    asked = Evidence("the question", "Which of the 500 customers spent over $1,000?", kind="given")
    traced = trace_numbers("Of 500 customers 48 spent more than $1,000, and 49 less.", [OUTPUT, asked])
    assert [(one.text, one.given, one.source) for one in traced.numbers] == [
        ("500", True, "the question"),
        ("48", False, "cell one"),
        ("$1,000", True, "the question"),
        ("49", False, None),
    ]


def test_data_in_bulk_bears_out_only_what_chance_would_not() -> None:
    bulk = Evidence("chart", values=tuple(number + 0.37 for number in range(1_000)))
    assert trace_numbers("It is 37 there.", [bulk]).untraced == ("37",)
    assert trace_numbers("It is 37.4 there.", [bulk]).untraced == ()
    assert trace_numbers("It is 5 there.", [Evidence("chart", values=(5.0,))]).untraced == ()


def test_marks_of_an_earlier_time_are_made_anew() -> None:
    text = f"48{MARK} and 77{MARK} and 78"
    assert trace_numbers(text, [OUTPUT]).marked == f"48 and 77{MARK} and 78{MARK}"


# Any number ----------------------------------------------------------------------------------------------------------

_FORMATS = (
    lambda value: f"{value:,.2f}",
    lambda value: f"{value:.3f}",
    lambda value: f"{value:.1f}",
    lambda value: f"{value:,.0f}",
    lambda value: f"{value * 100:.2f}%",
    lambda value: f"{value * 100:,.1f} percent",
    lambda value: f"{value / 1e3:.2f}k",
    lambda value: f"{value / 1e6:.3f} million",
    lambda value: f"{value:.4e}",
    lambda value: f"${value:,.2f}",
    repr,
)
_numbers = (
    st.floats(-1e7, 1e7, allow_nan=False)
    .map(lambda value: round(value, 6))
    .filter(lambda value: abs(value) > 1e-3)
)


@given(_numbers, st.integers(0, len(_FORMATS) - 1))
def test_what_a_cell_printed_is_traced_in_any_format(value: float, which: int) -> None:
    shown = _FORMATS[which](value)
    for printed in (f"{value!r}\n", f"result = {value!r}, done", f"a  b\n1  {value!r}\n"):
        traced = trace_numbers(f"It comes to {shown} in all.", [Evidence("cell", printed)])
        assert all(number.source == "cell" for number in traced.numbers), (shown, printed)
        assert len(traced.numbers) == (0 if _is_year(shown) else 1)


@given(_numbers, _numbers)
def test_another_number_is_not(value: float, other: float) -> None:
    shown = f"{other:.2f}"
    near = any(math.isclose(one, float(shown), abs_tol=0.0051) for one in (value, value * 100, value / 100))
    traced = trace_numbers(f"It comes to {shown} in all.", [Evidence("cell", f"value: {value!r}")])
    assert traced.untraced == (() if near else (shown,))


@given(st.text(st.sampled_from("0123456789 .,%-+$k\u2013()[]`#*\n:/eExab"), max_size=60))
def test_any_text_is_marked_and_loses_nothing(text: str) -> None:
    traced = trace_numbers(text, [OUTPUT])
    assert traced.marked.replace(MARK, "") == text
    assert trace_numbers(traced.marked, [OUTPUT]) == traced
    assert traced.marked.count(MARK) == len(traced.untraced)
    for number in traced.numbers:
        assert text[number.start : number.end] == number.text


def _is_year(shown: str) -> bool:
    return shown.isdigit() and len(shown) == 4 and 1900 <= int(shown) < 2100


# Resting on output ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    ["The mean is 12.3.", "The chart shows a rise.", "I computed it.", "The highest city is Rome."],
)
def test_findings_without_a_run_go_back(answer: str) -> None:
    earlier = Evidence("cell zero", "nothing", fresh=False)
    correction = rests_on_output(answer, [earlier])
    assert correction is not None
    assert "Run a cell" in correction.text
    assert rests_on_output(answer, [earlier, OUTPUT]) is None


def test_a_number_that_has_no_run_behind_it_is_named() -> None:
    correction = rests_on_output("It is 42 or 43, and 500 in all.", [Evidence("q", "500?", kind="given")])
    assert correction is not None
    assert "(42, 43)" in correction.text


@pytest.mark.parametrize(
    "answer", ["Which column holds the price?", "Hello! How can I help?", "The file is not there."]
)
def test_a_question_or_a_refusal_needs_no_run(answer: str) -> None:
    assert rests_on_output(answer, []) is None
