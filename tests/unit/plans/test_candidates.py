"""What is only likely has its candidates, each of which compiles; and advice that would mislead is not given."""

from __future__ import annotations

import pytest

from cellwright.engine.introspection import Raised, Subject
from cellwright.plans import Failure, Proposal
from cellwright.plans.fixers import MAX_CANDIDATES, candidates, propose
from cellwright.plans.hints import MAX_HINT_TOKENS, Hint
from cellwright.text_budget import CHARACTERS_PER_TOKEN
from tests.support.plans.handmade import failed, frame, no_file, no_key, undefined

THREE = Subject("items", "list", length=3)


def sources(failure: Failure) -> list[str]:
    found = candidates(failure)
    assert not any(one.applies for one in found)
    return [one.source or "" for one in found]


@pytest.mark.parametrize(
    ("source", "at", "expected"),
    [
        ("x = items[3]", "items[3]", ["x = items[2]"]),
        ("x = items[-4]", "items[-4]", ["x = items[-3]"]),
        ("x = items[7]", "items[7]", []),
        ("x = items[3] + items[1]", "items[3]", []),
        ("x = items[len(items)]", "items[len(items)]", ["x = items[len(items) - 1]"]),
        (
            "for i in range(len(items) + 1):\n    print(items[i])",
            "items[i]",
            ["for i in range(len(items)):\n    print(items[i])"],
        ),
        (
            "x = [items[i] for i in range(1, len(items) + 1)]",
            "items[i]",
            [
                "x = [items[i] for i in range(1, len(items))]",
                "x = [items[i - 1] for i in range(1, len(items) + 1)]",
            ],
        ),
        (
            "for i in range(len(items)):\n    print(items[i + 1])",
            "items[i + 1]",
            ["for i in range(len(items) - 1):\n    print(items[i + 1])"],
        ),
        (
            "while i <= len(items):\n    x = items[i]",
            "items[i]",
            ["while i < len(items):\n    x = items[i]"],
        ),
    ],
)
def test_an_index_that_is_off_by_one_has_the_ways_to_count_right(
    source: str, at: str, expected: list[str]
) -> None:
    failure = failed(source, "IndexError", "list index out of range", at=at, subject=THREE)
    assert sources(failure) == expected
    found = propose(failure)
    assert found is not None
    assert "3 elements" in found.reason


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("x = int('12a')", "12a", ["x = int('12')", "x = int('12a', 16)"]),
        ("x = int('1,200')", "1,200", ["x = int('1200')"]),
        ("x = int(row)", "1,200", ['x = int(row.replace(",", ""))']),
        ("x = int(row)", "12.5", ["x = int(float(row))", "x = float(row)"]),
        ("x = float('3,5')", "3,5", ["x = float('3.5')"]),
        ("x = float(a + b)", "$12", ['import re\nx = float(re.sub(r"[^\\d.+-]", "", (a + b)))']),
        ("x = int('')", "", []),
        ("x = int('many')", "many", []),
        ("x = int(a) + int(b)", "12a", []),
        (
            "x = df['n'].astype(float)",
            "1,200",
            [
                'x = df[\'n\'].str.replace(",", "").astype(float)',
                "x = pd.to_numeric(df['n'], errors=\"coerce\")",
            ],
        ),
    ],
)
def test_a_text_that_is_no_number_has_the_ways_to_read_it(
    source: str, text: str, expected: list[str]
) -> None:
    kind = (
        "could not convert string to float" if "float" in source else "invalid literal for int() with base 10"
    )
    failure = failed(source, "ValueError", f"{kind}: {text!r}", at=source.removeprefix("x = "), names=("pd",))
    assert sources(failure) == expected
    found = propose(failure)
    assert found is not None
    assert repr(text) in found.reason


def test_dates_conditions_and_pairs_have_theirs() -> None:
    date = "t = datetime.strptime('03/04/2024', '%Y-%m-%d')"
    told = "time data '03/04/2024' does not match format '%Y-%m-%d'"
    assert sources(failed(date, "ValueError", told, at=date)) == [
        "t = datetime.strptime('03/04/2024', '%d/%m/%Y')",
        "t = datetime.strptime('03/04/2024', '%m/%d/%Y')",
    ]
    told = "The truth value of a Series is ambiguous. Use a.empty, a.bool()"
    both = "x = df[df.a > 0 and not df.b]"
    assert sources(failed(both, "ValueError", told, at=both)) == ["x = df[(df.a > 0) & (~(df.b))]"]
    asked = "if s > 1:\n    x = 1"
    assert sources(failed(asked, "ValueError", told, at="s > 1")) == [
        "if (s > 1).any():\n    x = 1",
        "if (s > 1).all():\n    x = 1",
    ]
    pairs = "for key, value in prices:\n    x = value"
    many = "too many values to unpack (expected 2)"
    assert sources(failed(pairs, "ValueError", many, at="key, value")) == [
        "for key, value in prices.items():\n    x = value",
        "for key, value in enumerate(prices):\n    x = value",
        "for key, value, *_ in prices:\n    x = value",
    ]
    whole = "x = df['n'].astype(int)"
    nan = "Cannot convert non-finite values (NA or inf) to integer"
    assert len(sources(failed(whole, "IntCastingNaNError", nan, at="df['n'].astype(int)"))) == 3


def test_what_is_equally_near_is_tried_one_by_one_and_none_of_it_is_the_hint() -> None:
    column = no_key("x = df['rate_z']", "rate_z", "df['rate_z']", frame("rate_x", "rate_y", "n"))
    assert sources(column) == ["x = df['rate_x']", "x = df['rate_y']"]
    files = no_file(
        "x = open('sale.csv')", "sale.csv", at="open('sale.csv')", files=("sales.csv", "safe.csv")
    )
    assert sources(files) == ["x = open('sales.csv')", "x = open('safe.csv')"]
    name = undefined("x = rate_z", "rate_z", at="rate_z", names=("rate_x", "rate_y"))
    assert sources(name) == ["x = rate_x", "x = rate_y"]
    many = Proposal("many", "", "a", alternatives=tuple("bcdefg"))
    assert len(candidates(name, (lambda _: many,))) == MAX_CANDIDATES


def test_advice_that_would_mislead_is_not_given() -> None:
    style = "plt.style.use('seaborn-whitegrid')"
    top = Raised(
        "OSError", "'seaborn-whitegrid' is not a valid package style, path of style file, URL of style file"
    )
    no_style = no_file(style, "seaborn-whitegrid", at=style, files=("sales.csv",), raised=top)
    assert propose(no_style) is None or "no file" not in propose(no_style).reason  # type: ignore[union-attr]
    assert propose(undefined("x = test.run()", "test", at="test", modules=("test", "math"))) is None
    model = Subject("p", "sklearn.decomposition.PCA", attributes=("fit", "n_components", "transform"))
    message = "'PCA' object has no attribute 'components_'"
    unfitted = propose(
        failed(
            "x = p.components_",
            "AttributeError",
            message,
            at="p.components_",
            details={"name": "components_"},
            subject=model,
        )
    )
    assert unfitted is not None
    assert (unfitted.source, "p.fit" in unfitted.reason) == (None, True)


@pytest.mark.parametrize(
    ("hint", "line"),
    [
        (Hint("a", "No `b`.", diff="@@\n-b\n+a"), "hint: did you mean `a`? No `b`."),
        (Hint("a", "No `b`.", diff="@@\n-b\n-c\n+a"), "hint: No `b`."),
        (Hint("a", "why " * 100, diff="@@\n-b\n+a"), "hint: did you mean `a`?"),
        (Hint("a", "Because.", diff=f"@@\n-b\n+{'a' * 200}"), "hint: Because."),
    ],
)
def test_a_hint_is_one_short_line_with_the_change_where_that_is_one_line(hint: Hint, line: str) -> None:
    assert hint.line == line
    long = Hint("a", "so\nlong " * 200).line
    assert len(long) <= MAX_HINT_TOKENS * CHARACTERS_PER_TOKEN
    assert "\n" not in long
