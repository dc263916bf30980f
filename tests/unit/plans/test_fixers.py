from __future__ import annotations

import logging
import string
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cellwright.engine.introspection import Diagnosis, Head, Raised, Span, Subject
from cellwright.plans import Failure, Proposal
from cellwright.plans.fixers import every_fixer, propose
from cellwright.plans.fixers._cells import syntax_error
from tests.matrix import first_of
from tests.support.plans.handmade import failed, frame, no_file, no_key, undefined


def suggests(_: Failure) -> Proposal | None:
    return Proposal("suggests", "perhaps", "y = 1")


def mends(failure: Failure) -> Proposal | None:
    return Proposal("mends", "surely", failure.source + "!", certain=True)


def knows_nothing(_: Failure) -> Proposal | None:
    return None


def breaks(failure: Failure) -> Proposal | None:
    raise ZeroDivisionError(failure.source)


FAILURE = Failure("x", "error", "NameError", "name 'x' is not defined")


def test_the_first_proposal_that_applies_wins_over_suggestions_before_it() -> None:
    found = propose(FAILURE, (knows_nothing, suggests, mends))
    assert found is not None
    assert found.fixer == "mends"


def test_where_nothing_applies_the_first_suggestion_is_told() -> None:
    found = propose(FAILURE, (knows_nothing, suggests, suggests))
    assert found == Proposal("suggests", "perhaps", "y = 1")
    assert propose(FAILURE, (knows_nothing,)) is None
    assert propose(FAILURE, ()) is None


def test_a_fixer_that_raises_is_passed_over_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        found = propose(FAILURE, (breaks, mends))
    assert found is not None
    assert found.fixer == "mends"
    assert "fixer_failed fixer=breaks" in caplog.text


def test_what_changes_nothing_is_no_proposal() -> None:
    same = Proposal("same", "as it was", FAILURE.source, certain=True)
    found = propose(FAILURE, (lambda _: same, suggests))
    assert found is not None
    assert found.fixer == "suggests"
    with_package = Proposal("same", "with a package", FAILURE.source, ("numpy",), certain=True)
    assert propose(FAILURE, (lambda _: with_package,)) == with_package


def test_a_fixer_may_be_any_callable_with_knowledge_of_its_own() -> None:
    class Agent:
        """Answers what it was told beforehand."""

        def __init__(self, answer: str) -> None:
            self.answer = answer

        def __call__(self, _: Failure) -> Proposal | None:
            return Proposal("agent", "it said so", self.answer, certain=True)

    found = propose(FAILURE, (*every_fixer(), Agent("x = 1")))
    assert found is not None
    assert found.source == "x = 1"


@pytest.mark.parametrize("state", ["died", "interrupted"])
def test_what_no_code_can_mend_is_left_to_its_class(state: str) -> None:
    assert propose(Failure("x = 1", state, state, "")) is None
    assert propose(Failure("x = 1", "error", "MemoryError", "")) is None
    assert propose(Failure("x = 1", "error", "PermissionError", "no")) is None


def test_other_languages_are_left_alone() -> None:
    assert (
        propose(Failure("x <- true", "error", "NameError", "name 'true' is not defined", language="R"))
        is None
    )


def test_errors_that_are_several_things_at_once_are_left_alone() -> None:
    roots = (Raised("NameError", "name 'np' is not defined"), Raised("ValueError", "no"))
    group = Raised("ExceptionGroup", "g (2 sub-exceptions)")
    diagnosis = Diagnosis(roots, group, modules=("numpy",))
    assert propose(Failure("np.a", "error", "ExceptionGroup", "g", diagnosis=diagnosis)) is None


# What stands around ------------------------------------------------------------------------------------------------

LINES = st.sampled_from(
    [
        "",
        "# Größe: 'région' in \"quotes\" — df['region']",
        "text = \"df['region'] and sales.csv, “quoted”\"",
        "%matplotlib inline",
        '!echo "it\'s" > /dev/null',
        "listing = !ls",
        "numbers = [\n    1,  # one\n    2,\n]",
        '"""\ndf["region"]\n  np.x  """',
        "if numbers_of:\n    pass\nelse:\n    other()",
        "await something()",
        "número = f'{wert!r:>10}' + 'ä'\t",
        "def f(a, *, b=None):\n\treturn a  ",
        "x = 5; y = 6",
        "help?",
    ]
)
AROUND = st.tuples(st.lists(LINES, max_size=4), st.lists(LINES, max_size=4))


@given(AROUND)
@example((["# df['region']"], ["z = 'region'"]))
def test_text_around_a_wrong_column_stays_byte_for_byte(around: tuple[list[str], list[str]]) -> None:
    before, after = ("".join(f"{line}\n" for line in lines) for lines in around)
    wrong, right = "groß = wert(df['region'].nunique())  # ü\n", "groß = wert(df['Region'].nunique())  # ü\n"
    source = before + wrong + after
    failure = no_key(source, "region", wrong.strip(), frame("Region", "x"))
    found = propose(failure)
    assert found is not None
    assert found.applies
    assert found.source == before + right + after


@given(AROUND)
def test_a_missing_import_is_put_in_and_nothing_else_is_changed(around: tuple[list[str], list[str]]) -> None:
    before, after = ("".join(f"{line}\n" for line in lines) for lines in around)
    source = f"{before}größe = np.ones(3)\n{after}"
    found = propose(undefined(source, "np"))
    assert found is not None
    assert found.applies
    assert found.source is not None
    lines = found.source.splitlines(keepends=True)
    lines.remove("import numpy as np\n")
    assert "".join(lines) == source


@given(AROUND)
def test_text_around_a_wrong_path_stays_byte_for_byte(around: tuple[list[str], list[str]]) -> None:
    before, after = ("".join(f"{line}\n" for line in lines) for lines in around)
    source = f"{before}frame = read(r'Sales.csv')\n{after}"
    found = propose(no_file(source, "Sales.csv", at="read(r'Sales.csv')", files=("sales.csv",)))
    assert found is not None
    assert found.source == f"{before}frame = read(r'sales.csv')\n{after}"
    assert found.applies


@given(st.lists(LINES.filter(lambda line: "await" not in line), max_size=3))
def test_text_before_a_missing_colon_stays_byte_for_byte(lines: list[str]) -> None:
    before = "".join(f"{line}\n" for line in lines)
    found = propose(Failure(f"{before}for ä in 'ü'\n    pass\n", "error", "SyntaxError", "expected ':'"))
    assert found is not None
    assert found.applies
    assert found.source == f"{before}for ä in 'ü':\n    pass\n"


# Nothing raises ----------------------------------------------------------------------------------------------------

ALPHABET = string.printable + "äß“”\u2018\u2019\u00a0\ufeff\uff0c\uff08\uff09🦊\u2028\x00"
PIECES = "print |if |x|df|['a'|(|)|]|\"|'''|\n|    |:| = |import |from |pandas|.|==|!|%|#|\\|>>> |```|lambda|f'{|}|;|else|\t|open"
TEXTS = st.one_of(
    st.text(ALPHABET, max_size=60),
    st.lists(
        st.sampled_from(PIECES.split("|")),
        max_size=25,
    ).map("".join),
)
ERRORS = [
    ("NameError", "name 'x' is not defined"),
    ("ModuleNotFoundError", "No module named 'pandas.x'"),
    ("ImportError", "cannot import name 'x' from 'pandas' (unknown location)"),
    ("FileNotFoundError", "[Errno 2] No such file or directory: 'x'"),
    ("OSError", "Cannot save file into a non-existent directory: 'x'"),
    ("KeyError", "'a'"),
    ("KeyError", "\"['a', 'x'] not in index\""),
    ("ColumnNotFoundError", "a"),
    ("AttributeError", "'DataFrame' object has no attribute 'x'"),
    ("AttributeError", "module 'numpy' has no attribute 'float'"),
    ("TypeError", "'tuple' object is not callable"),
    ("TypeError", "'NoneType' object is not subscriptable"),
    ("TypeError", "'method' object is not iterable"),
    ("IndexError", "list index out of range"),
    ("ZeroDivisionError", "division by zero"),
    ("UnicodeDecodeError", "'utf-8' codec can't decode byte"),
    ("ParserError", "Error tokenizing data. C error: Expected 1 fields in line 3, saw 2"),
    ("ValueError", "columns expected but not found: ['a']"),
    ("SyntaxError", "invalid syntax"),
    ("IndentationError", "unexpected indent"),
    ("TabError", "inconsistent use of tabs"),
]
SPANS = st.none() | st.builds(
    Span, st.integers(1, 4), st.integers(0, 30), st.integers(1, 4), st.integers(0, 30)
)


@settings(max_examples=80, deadline=None)
@given(TEXTS, st.sampled_from(ERRORS), SPANS, TEXTS)
def test_no_fixer_raises_and_no_proposal_fails_to_compile(
    source: str, error: tuple[str, str], span: Span | None, other: str
) -> None:
    root = Raised(*error, details={"key": other, "filename": other, "name": "x"}, span=span)
    subject = Subject(
        "df", "pandas.DataFrame", columns=("A", other), keys=("A", other), attributes=("X",), length=2
    )
    diagnosis = Diagnosis(
        (root,),
        root,
        subject=subject,
        values={"x": "None", "df": other},
        names=("df", "xx", "pd", other),
        modules=("pandas", "numpy", "os"),
        members={"pandas": ("X", other)},
        files=("a/X", other),
        heads=(Head(other, other.encode("utf-8", "replace"), 10),),
        directory="/project",
    )
    failure = Failure(source, "error", *error, diagnosis=diagnosis)
    for fixer in every_fixer():
        found = fixer(failure)
        assert found is None or found.reason
        assert found is None or found.source is None or syntax_error(found.source) is None
        assert found is None or found.source != source or not found.applies


def test_a_failure_without_a_diagnosis_is_no_hindrance() -> None:
    found = propose(Failure("print 'a'", "error", "SyntaxError", "Missing parentheses in call to 'print'"))
    assert found is not None
    assert found.source == "print('a')"
    named = propose(Failure("x = true", "error", "NameError", "name 'true' is not defined"))
    assert named is not None
    assert named.source == "x = True"


def test_a_suggestion_never_applies() -> None:
    found = propose(
        failed("x = a / b", "ZeroDivisionError", "division by zero", at="a / b", values={"b": "0"})
    )
    assert found is not None
    assert "`b` is zero" in found.reason
    assert not found.applies


# Long texts --------------------------------------------------------------------------------------------------------

LOOKED_THROUGH_S = 60
LONG = "".join(f"value_{i} = compute('text {i}', other[{i}])  # {i}\n" for i in range(1_800))


def test_a_text_that_no_hand_wrote_is_left_alone() -> None:
    assert propose(undefined(LONG * 2 + "x = toatl", "toatl", names=("total",))) is None
    assert propose(Failure(LONG * 2 + "if x\n    y = 1\n", "error", "SyntaxError", "expected ':'")) is None


@pytest.mark.parametrize(
    "wrong",
    first_of(
        [
            "t = (1, 2\n",
            "t = 'abc\n",
            "print x\n" * 30,
            "t = “abc”\n" * 300,
            "x = 1\n  y = 2\n",
            "t = " + "(" * 3_000,
        ],
        2,
    ),
)
def test_a_long_text_is_looked_through_in_time(wrong: str) -> None:
    # Twice the text took four times as long, up to minutes, in which an engine does nothing else.
    began_s = time.process_time()
    propose(Failure(LONG + wrong, "error", "SyntaxError", "invalid syntax"))
    propose(Failure(wrong + LONG, "error", "SyntaxError", "invalid syntax"))
    assert time.process_time() - began_s < LOOKED_THROUGH_S
