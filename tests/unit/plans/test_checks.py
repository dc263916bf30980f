from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cellwright.errors import PlanError
from cellwright.plans.checks import check_source, check_text, output_appears, parse_check, told
from cellwright.plans.model import Check


@pytest.mark.parametrize(
    "text", ["", "  ", "runs without error", "Runs without errors.", "run without an error"]
)
def test_what_asks_for_no_more_than_running_is_no_check(text: str) -> None:
    assert parse_check(text) is None


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("len(df) > 0", Check("expression", "len(df) > 0")),
        ("  `len(df) > 0` ", Check("expression", "len(df) > 0")),
        ("Expression: output", Check("expression", "output")),
        ("assert x > 1, 'too small'", Check("expression", "x > 1")),
        ("assert (x > 1\n  and y)", Check("expression", "(x > 1\n  and y)")),
        ("await ready()", Check("expression", "await ready()")),
        ("output: 42 rows", Check("output", "42 rows")),
        ("OUTPUT:image/png", Check("output", "image/png")),
        ("output: `tick`", Check("output", "`tick`")),
        ("file: ./out/result.csv", Check("file", "out/result.csv")),
        ("file: `out/a b.csv`", Check("file", "out/a b.csv")),
        (r"'\d' in text", Check("expression", r"'\d' in text")),
    ],
)
def test_each_kind_of_check_is_read(text: str, check: Check) -> None:
    assert parse_check(text) == check


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "out/../../x", "~/x", "C:/x", r"C:\x", ".", "a\0b"])
def test_a_file_outside_the_working_directory_is_refused(path: str) -> None:
    with pytest.raises(PlanError, match="leads out of the working directory"):
        parse_check(f"file: {path}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("total = 3", "invalid syntax at column 7, at '= 3'"),
        ("the chart is drawn", "invalid syntax at column 5"),
        ("len(df", "was never closed"),
        ("(yield)", "'yield' outside function"),
        ("assert x; y", "invalid syntax"),
        ("x > 0, 'message'", "is always true: it is a tuple"),
        ("'there are rows'", "is always true: it is a text"),
        ("output:  ", "says nothing"),
        ("a\0b", "no Python expression"),
    ],
)
def test_what_is_no_python_expression_is_refused_with_the_reason_and_its_place(
    text: str, reason: str
) -> None:
    with pytest.raises(PlanError) as refused:
        parse_check(text)
    assert reason in refused.value.message
    assert refused.value.hint


def test_another_languages_expression_is_taken_as_it_is() -> None:
    assert parse_check("nrow(df) > 0 && TRUE", language="r") == Check("expression", "nrow(df) > 0 && TRUE")


@pytest.mark.parametrize(
    "expression", ["n == 3", "n == 3  # three", "n in (\n3,)", "'it\\'s \"3\"' and n == 3"]
)
def test_python_code_of_a_check_raises_only_where_it_is_not_true(expression: str) -> None:
    source = check_source(Check("expression", expression))
    exec(compile(source, "<check>", "exec"), {"n": 3})  # noqa: S102  # the point of the test
    with pytest.raises(AssertionError) as failed:
        exec(compile(source, "<check>", "exec"), {"n": 4})  # noqa: S102  # likewise
    assert str(failed.value) == f"Not true: {expression}"


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("r", r'stopifnot("Not true: x == \"a\"" = (x == "a"))'),
        ("javascript", r'if (!(x == "a")) throw new Error("Not true: x == \"a\"");'),
        ("typescript", r'if (!(x == "a")) throw new Error("Not true: x == \"a\"");'),
    ],
)
def test_other_languages_check_in_their_own_words(language: str, source: str) -> None:
    assert check_source(Check("expression", 'x == "a"'), language) == source


def test_a_language_without_known_checks_says_what_to_do() -> None:
    with pytest.raises(PlanError, match="cannot be checked in julia") as refused:
        check_source(Check("expression", "x"), "julia")
    assert "check an output" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("python", """assert __import__('os').path.exists("o'.csv"), "There is no file o'.csv\""""),
        ("r", 'stopifnot("There is no file o\'.csv" = file.exists("o\'.csv"))'),
        ("typescript", 'if (!Deno.statSync("o\'.csv")) throw new Error("There is no file o\'.csv");'),
    ],
)
def test_a_file_is_looked_for_where_the_code_sees_it(language: str, source: str) -> None:
    assert check_source(Check("file", "o'.csv"), language) == source


def test_outputs_are_not_checked_by_code() -> None:
    with pytest.raises(PlanError, match="not checked by code"):
        check_source(Check("output", "42"))


def _stream(text: str | list[str], name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def _shown(**data: Any) -> dict[str, Any]:
    named = {mime.replace("_", "/"): content for mime, content in data.items()}
    return {"output_type": "display_data", "metadata": {}, "data": named}


@pytest.mark.parametrize(
    ("wanted", "outputs"),
    [
        ("42 rows", [_stream("42 "), _stream("noise", "stderr"), _stream(["ro", "ws\n"])]),
        ("a b", [_stream("   a      b\n0  1      2")]),
        ("warned", [_stream("\x1b[31mwar\x1b[0mned", "stderr")]),
        ("'abc'", [_shown(text_plain="'abc'")]),
        ("42", [_shown(text_html="<b>4</b>2")]),
        ("x y", [_shown(text_html=["<tr><td>x</td>", "<td>y</td></tr>"])]),
        ("R&D < 5", [_shown(text_html="<p>R&amp;D &lt; 5</p>")]),
        ("image/png", [_shown(image_png="iVBOR")]),
        ("image/*", [_shown(**{"image/svg+xml": "<svg/>"})]),
        ("text/plain", [_stream("it is text/plain")]),
    ],
)
def test_an_output_that_is_there_appears(wanted: str, outputs: list[dict[str, Any]]) -> None:
    assert output_appears(Check("output", wanted), outputs)


@pytest.mark.parametrize(
    ("wanted", "outputs"),
    [
        ("42", []),
        ("boom", [{"output_type": "error", "ename": "boom", "evalue": "boom", "traceback": ["boom"]}]),
        ("Table", [_stream("table")]),
        ("red", [_shown(text_html="<style>.red {}</style><p class='red'>blue</p>")]),
        ("hidden", [_shown(text_html="seen <script>hidden")]),
        ("hidden", [_shown(text_html="seen <!-- hidden --> too")]),
        ("image/png", [_shown(image_jpeg="/9j/")]),
        ("ab", [_stream("a"), _stream("b", "stderr")]),
    ],
)
def test_an_output_that_is_not_there_does_not_appear(wanted: str, outputs: list[dict[str, Any]]) -> None:
    assert not output_appears(Check("output", wanted), outputs)


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (Check("expression", "len(df) > 0"), "`len(df) > 0` is true"),
        (Check("expression", "`x` > 1"), "`` `x` > 1 `` is true"),
        (Check("output", "42 rows"), "the output shows “42 rows”"),
        (Check("output", "image/png"), "the output shows `image/png`"),
        (Check("file", "out/x.csv"), "the file `out/x.csv` exists"),
    ],
)
def test_a_check_is_told_in_words(check: Check, words: str) -> None:
    assert told(check) == words


_expressions = st.sampled_from(["x > 0", "len(df) == 3", "output", "'file: x' in text", "not broken"])
_outputs = st.text(min_size=1).map(str.strip).filter(bool)
_paths = st.lists(st.sampled_from(["out", "a b", "x.csv", "ü"]), min_size=1, max_size=3).map(
    lambda parts: str(PurePosixPath(*parts))
)
checks = st.one_of(
    st.builds(Check, st.just("expression"), _expressions),
    st.builds(Check, st.just("output"), _outputs),
    st.builds(Check, st.just("file"), _paths),
)


@given(checks)
@example(Check("output", "output: runs without error"))
def test_a_check_survives_being_written_and_read(check: Check) -> None:
    assert parse_check(check_text(check)) == check
