from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.errors import PlanError, PlanFileError
from cellwright.plans.model import Check, Outline, TodoOutline
from cellwright.plans.outlines import checked_outline
from cellwright.plans.plan_files import PlanFile, PlanFileKind, parse_plan, read_plan, write_plan

SALES = """\
# What did we sell?

From `data/sales.csv`.

    ## not a heading

## 1. Load

Reads the file
as it is.

```python
import pandas as pd
df = pd.read_csv("data/sales.csv")
```

Accept: `len(df) > 0`
- **Accept:** output: 42
Timeout: 2 min

## Step 2: Draw

Depends on: Load
~~~~{.py}
# a comment, no heading
## nor this
print('''
~~~
''')
~~~~
More words.

* Accept: file: out/chart.png

## Say what it means
Depends on: 1, draw

## Validation: The chart is there
```
assert chart
```
"""

SALES_OUTLINE = Outline(
    "What did we sell?",
    (
        TodoOutline(
            "Load",
            'import pandas as pd\ndf = pd.read_csv("data/sales.csv")',
            checks=(Check("expression", "len(df) > 0"), Check("output", "42")),
            explanation="Reads the file\nas it is.",
            timeout_s=120,
        ),
        TodoOutline(
            "Draw",
            "# a comment, no heading\n## nor this\nprint('''\n~~~\n''')",
            checks=(Check("file", "out/chart.png"),),
            depends_on=(1,),
            explanation="More words.",
        ),
        TodoOutline("Say what it means", depends_on=(1, 2)),
    ),
    validation=TodoOutline("The chart is there", "assert chart"),
    description="From `data/sales.csv`.\n\n    ## not a heading",
)

PI_TOML = """\
problem = "How large is pi?"
draft = true

[[todo]]
description = "Throw darts"
code = '''
[[todo]]
acept = 1
'''
accept = ["inside > 0", "output: darts"]
timeout_s = 5

[[todo]]
description = "Count them"
depends_on = [1, "throw  DARTS"]
accept = "runs without error"

[validation]
accept = ["3 < pi < 4", "file: pi.txt"]
"""

PI_OUTLINE = Outline(
    "How large is pi?",
    (
        TodoOutline(
            "Throw darts",
            "[[todo]]\nacept = 1",
            checks=(Check("expression", "inside > 0"), Check("output", "darts")),
            timeout_s=5,
        ),
        TodoOutline("Count them", depends_on=(1,)),
    ),
    validation=TodoOutline(
        "Validation",
        "assert (3 < pi < 4), 'Not true: 3 < pi < 4'\n# the file `pi.txt` exists",
        checks=(Check("file", "pi.txt"),),
    ),
    draft=True,
)


def _parse(text: str, kind: PlanFileKind = "markdown") -> PlanFile:
    return parse_plan(text, kind=kind, name="the.plan")


def test_markdown_is_read_step_by_step() -> None:
    assert _parse(SALES) == PlanFile(SALES_OUTLINE, "python")


def test_toml_is_read_step_by_step() -> None:
    assert _parse(PI_TOML, "toml") == PlanFile(PI_OUTLINE, "python")


@pytest.mark.parametrize("kind", ["markdown", "toml"])
@pytest.mark.parametrize("outline", [SALES_OUTLINE, PI_OUTLINE])
def test_real_plans_survive_being_written_and_read(outline: Outline, kind: PlanFileKind) -> None:
    assert _parse(write_plan(outline, kind), kind).outline == outline


def test_windows_line_ends_and_a_byte_order_mark_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sales.plan.md"
    path.write_bytes(b"\xef\xbb\xbf" + SALES.replace("\n", "\r\n").encode())
    assert read_plan(path).outline == SALES_OUTLINE


@pytest.mark.parametrize(
    ("fence", "language"),
    [("r", "r"), ("{r}", "r"), ("sh", "bash"), ("TypeScript x=1", "typescript"), ("", "python")],
)
def test_the_fences_say_which_language_the_session_is_to_have(fence: str, language: str) -> None:
    assert _parse(f"# p\n## a\n```{fence}\nx\n```\n").language == language


def test_checks_are_read_in_the_plans_language() -> None:
    plan = _parse("# p\n## a\nAccept: nrow(df) > 0 && TRUE\n```r\ndf\n```\n")
    assert plan.outline.todos[0].checks == (Check("expression", "nrow(df) > 0 && TRUE"),)
    assert write_plan(plan.outline, "toml", language="r").startswith('problem = "p"\nlanguage = "r"\n')


BAD_MARKDOWN = [
    ("", 1, "the file is empty", "Begin with '# '"),
    ("\n\n", 1, "the file is empty", "Begin with '# '"),
    ("hello\n# p\n", 1, "does not begin with its problem", "Begin with '# '"),
    ("# \n## a\n", 1, "no problem", "Say in a line"),
    ("# p\n1. text\n", 1, "no steps", "'## 1. "),
    ("# p\n## a\n# q\n", 3, "a second '# ' heading", "'## '"),
    ("# p\n## 1.\n", 2, "step 1 has no description", "Say in a line"),
    ("# p\n## Step 1\n", 2, "step 1 has no description", "Say in a line"),
    ("# p\n## 1. a\n## 3. b\n", 3, "step 2 has the number 3", "1, 2, 3"),
    ("# p\n## a\n## b\n## A\n", 4, "steps 1 and 3 have the same name", "another"),
    ("# p\n## a\n```\nx\n", 3, "never closed", "Close it with a line of ```"),
    ("# p\n## a\n```\nx\n```\ny\n```\nz\n```\n", 7, "2 code blocks (lines 3 and 7)", "Make a step of each"),
    ("# p\n## a\n```py\nx\n```\n## b\n```r\nx\n```\n", 7, "this is r, and line 3 is python", "same language"),
    ("# p\nAccept: x\n## a\n", 2, "before the first step", "below a '## ' heading"),
    ("# p\n## a\nAccept:\n- x\n", 3, "says nothing", "on the same line"),
    ("# p\n## a\n\nAccept: x = 1\n", 4, "no Python expression: invalid syntax at column 3", "must be true"),
    ("# p\n## a\nAccept: file: /etc/passwd\n", 3, "out of the working directory", "beneath"),
    ("# p\n## a\nDepends on: 1\n", 2, "step 1 depends on itself", "Leave it out"),
    ("# p\n## a\nDepends on: b\n## b\n", 2, "step 1 depends on step 2, which comes after it", "move one"),
    ("# p\n## a\n## b\nDepends on: 1, 7\n", 3, "step 2 depends on step 7, which is not there", "1 to 2"),
    ("# p\n## a\n## b\nDepends on: 1, c\n", 4, "no step 'c' to depend on", "number"),
    ("# p\n## a\nTimeout: soon\n", 3, "'soon' is no time", "'60 s'"),
    ("# p\n## a\nTimeout: 0 s\n", 2, "the time-out of step 1 is 0 seconds", "more than 0"),
    ("# p\n## a\nTimeout: 1 s\nTimeout: 2 s\n", 4, "two time-outs", "Leave one"),
    ("# p\n## Validation\n```\nx\n```\n## a\n", 2, "not the last heading", "Move it to the end"),
    ("# p\n## a\n## Validation\nwords\n", 3, "the validation checks nothing", "Give it code"),
    ("# p\n## a\n## Validation\nDepends on: 1\n```\nx\n```\n", 3, "has dependencies", "Leave them out"),
    ("# p\n## a\n## Validation\nAccept: output: x\nAccept: y\n", 3, "has no code", "puts it out"),
    ("# p\n## a\n```julia\nx\n```\n## Validation\nAccept: x\n", 6, "cannot be checked in julia", "Python, R"),
    (
        "# p\n" + "".join(f"## s{number}\n" for number in range(101)),
        102,
        "101 steps, and 100",
        "several plans",
    ),
]

BAD_TOML = [
    ("", 1, "no problem", "Say in a line"),
    ('problem = "p"\n', 1, "no steps", "at least one"),
    ('problem = "p"\ntodo = 3\n', 2, "'todo' is no list of tables", "[[todo]]"),
    ('problem = "p"\nvalidation = 3\n', 2, "'validation' is no table", "[validation]"),
    ('problem = "p"\n\nproblem = "q"\n', 3, "it is no TOML: Cannot overwrite a value", "Correct"),
    ('problem = "p"\nx = """\n', 3, "it is no TOML", "Correct"),
    ("problem = " + "[" * 20_000, 1, "it is no TOML", "nested"),
    ("problem = 3\n", 1, "'problem' is no text", "quotation marks"),
    ('problem = "p"\ndraft = "yes"\n', 2, "'draft' is neither true nor false", "true or false"),
    ('problem = "p"\ntitle = "q"\n', 2, "unknown key 'title'", "Known are problem"),
    ('problem = "p"\n[[todo]]\ndescription = "a"\n\n[[todo]]\nacept = "x"\n', 6, "'acept'", "mean 'accept'?"),
    ('problem = "p"\n[[todo]]\ndescription = ""\n', 3, "step 1 has no description", "Say in a line"),
    ('problem = "p"\n[[todo]]\ncode = "x"\n', 2, "step 1 has no description", "Say in a line"),
    ('problem = "p"\n[[todo]]\ndescription = "a"\naccept = [1]\n', 4, "else than texts", "list of texts"),
    ('problem = "p"\n[[todo]]\ndescription = "a"\ndepends_on = [true]\n', 4, "numbers or texts", "list"),
    ('problem = "p"\n[[todo]]\ndescription = "a"\ntimeout_s = "5"\n', 4, "is no number", "without a unit"),
    ('problem = "p"\n[[todo]]\ndescription = "a"\ntimeout_s = inf\n', 3, "is inf seconds", "more than 0"),
    (
        'problem = "p"\n[[todo]]\ndescription = "a"\ncode = """\nx"""\naccept = "1 +"\n',
        6,
        "expression",
        "true",
    ),
    (PI_TOML.replace("Count them", ""), 14, "step 2 has no description", "Say in a line"),
    ('problem = "p"\ntodo = [{description = "a", depends_on = 2}]\n', 2, "depends on step 2", "1 to 1"),
]


@pytest.mark.parametrize(
    ("kind", "text", "line", "message", "hint"),
    [("markdown", *row) for row in BAD_MARKDOWN] + [("toml", *row) for row in BAD_TOML],
)
def test_an_error_names_the_file_the_line_and_what_to_do(
    kind: PlanFileKind, text: str, line: int, message: str, hint: str
) -> None:
    with pytest.raises(PlanFileError) as refused:
        _parse(text, kind)
    assert refused.value.message.startswith(f"the.plan, line {line}: ")
    assert message in refused.value.message
    assert hint in (refused.value.hint or "")


def test_a_file_that_is_no_plan_file_is_refused_with_the_reason(tmp_path: Path) -> None:
    latin = tmp_path / "latin.plan.md"
    latin.write_bytes(b"# p\n## caf\xe9\n")
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * 1_000_001)
    pipe = tmp_path / "pipe.md"
    os.mkfifo(pipe)
    (tmp_path / "folder.md").mkdir()
    for name, reason in [
        ("latin.plan.md", "latin.plan.md, line 2: it is not UTF-8"),
        ("large.toml", "large.toml is larger than 1,000,000 bytes"),
        ("pipe.md", "is no plain file"),
        ("folder.md", "cannot be read: Is a directory"),
        ("missing.md", "cannot be read: No such file"),
        ("plan.yaml", "no plan file by its name"),
    ]:
        with pytest.raises(PlanFileError) as refused:
            read_plan(tmp_path / name)
        assert reason in refused.value.message
        assert refused.value.hint


def test_a_line_made_to_take_long_does_not() -> None:
    for line in [
        "# a" + " " * 200_000 + "x",
        "-" + " " * 200_000 + "Accept",
        "```" + " " * 200_000 + "`",
        "9" * 200_000,
    ]:
        _parse(f"# p\n## a\nTimeout: 1 s\n{line}\n" if not line.startswith("# ") else f"{line}\n## a\n")
    with pytest.raises(PlanFileError, match="is no time"):
        _parse("# p\n## a\nTimeout: " + "9" * 200_000)


_word = (
    st.text("abcxyzäß .0123", min_size=1, max_size=12)
    .map(str.strip)
    .filter(lambda text: text.strip(". 0123"))
)
_lines = st.lists(
    st.sampled_from(["x = 1", "", "    y", "# note", "## two", "```", "~~~~", "'''", '"""', "print('é')"])
)
_tidy_code = _lines.map("\n".join).map(lambda code: code.strip("\n") or "pass")
_tidy_prose = st.lists(_word, max_size=3).map("\n\n".join)
_any_text = st.text(max_size=20)
_tidy_checks = st.sampled_from(
    [
        Check("expression", "x > 0"),
        Check("output", "42 rows"),
        Check("output", "image/png"),
        Check("file", "a/b.csv"),
    ]
)
_any_checks = st.one_of(
    _tidy_checks, _any_text.map(str.strip).filter(bool).map(lambda text: Check("output", text))
)


@st.composite
def _outlines(draw: st.DrawFn, *, tidy: bool) -> Outline:
    words, prose = (_word, _tidy_prose) if tidy else (_any_text, _any_text)
    code = _tidy_code if tidy else st.one_of(_tidy_code, _any_text)
    checks = st.lists(_tidy_checks if tidy else _any_checks, max_size=3).map(tuple)
    names = draw(
        st.lists(
            words.map(lambda text: " ".join(text.split())), min_size=1, max_size=4, unique_by=str.casefold
        )
    )
    times = st.none() | st.floats(0.001, 600_000)

    def todo(name: str, number: int, code: st.SearchStrategy[str | None]) -> TodoOutline:
        earlier = (
            st.lists(st.integers(1, max(number - 1, 1)), max_size=3, unique=True)
            if number > 1
            else st.just([])
        )
        return TodoOutline(
            name,
            draw(code),
            draw(checks),
            tuple(draw(earlier)),
            explanation=draw(prose),
            timeout_s=draw(times),
        )

    validation = todo(draw(words), 1, _tidy_code) if draw(st.booleans()) else None
    todos = tuple(todo(name, number, st.none() | code) for number, name in enumerate(names, 1))
    return Outline(draw(words), todos, validation, draw(st.booleans()), draw(prose))


@given(_outlines(tidy=True), st.sampled_from(["markdown", "toml"]))
def test_reading_what_was_written_gives_the_same_plan(outline: Outline, kind: PlanFileKind) -> None:
    assert _parse(write_plan(outline, kind), kind).outline == checked_outline(outline)


@given(_outlines(tidy=False), st.sampled_from(["markdown", "toml"]))
def test_whatever_is_in_a_plan_it_is_written_so_that_it_reads_the_same_or_refused(
    outline: Outline, kind: PlanFileKind
) -> None:
    try:
        text = write_plan(outline, kind)
    except PlanError:
        return
    assert _parse(text, kind).outline == checked_outline(outline)


@pytest.mark.parametrize(
    "todo",
    [
        TodoOutline("a", explanation="first\n## second"),
        TodoOutline("a", explanation="Accept: everybody"),
        TodoOutline("a", explanation="```\nx\n```"),
        TodoOutline("a", checks=(Check("output", "two\nlines"),)),
    ],
)
def test_what_markdown_would_read_as_something_else_is_refused_there_and_not_in_toml(
    todo: TodoOutline,
) -> None:
    with pytest.raises(PlanError, match="cannot be written as markdown"):
        write_plan(Outline("p", (todo,)), "markdown")
    assert _parse(write_plan(Outline("p", (todo,)), "toml"), "toml").outline.todos == (todo,)


@given(_outlines(tidy=False))
def test_toml_can_hold_every_plan_that_can_be_carried_out(outline: Outline) -> None:
    try:
        outline = checked_outline(outline)
    except PlanError:
        return
    assert _parse(write_plan(outline, "toml"), "toml").outline == outline


@given(_outlines(tidy=False))
def test_tidying_a_tidy_outline_changes_nothing(outline: Outline) -> None:
    try:
        outline = checked_outline(outline)
    except PlanError:
        return
    assert checked_outline(outline) == outline


@given(st.lists(st.sampled_from([*SALES.split("\n"), *PI_TOML.split("\n"), "é"])).map("\n".join))
def test_any_text_is_a_plan_or_a_plan_file_error(text: str) -> None:
    for kind in ("markdown", "toml"):
        try:
            plan = parse_plan(text, kind=kind, name="any")
        except PlanFileError:
            continue
        assert checked_outline(plan.outline, language=plan.language) == plan.outline


@pytest.mark.parametrize(
    ("outline", "message"),
    [
        (Outline(" ", (TodoOutline("a"),)), "no problem"),
        (Outline("p", ()), "no steps"),
        (Outline("p", (TodoOutline("a"), TodoOutline(" \n"))), "step 2 has no description"),
        (Outline("p", (TodoOutline("a", depends_on=(1,)),)), "depends on itself"),
        (Outline("p", (TodoOutline("a", depends_on=(2,)), TodoOutline("b"))), "comes after it"),
        (Outline("p", (TodoOutline("a", depends_on=(0,)),)), "which is not there"),
        (Outline("p", (TodoOutline("a"), TodoOutline("b"), TodoOutline("c"))), "3 steps, and 2 are allowed"),
        (Outline("p", (TodoOutline("a", timeout_s=float("nan")),)), "is nan seconds"),
    ],
)
def test_an_outline_that_cannot_be_carried_out_is_refused(outline: Outline, message: str) -> None:
    with pytest.raises(PlanError, match=message) as refused:
        checked_outline(outline, max_todos=2)
    assert refused.value.hint


def test_an_outline_is_tidied() -> None:
    untidy = Outline(
        " p\n", (TodoOutline(" a\n b ", "  \n", depends_on=()), TodoOutline("c", "\nx\n", depends_on=(1, 1)))
    )
    assert checked_outline(untidy) == Outline(
        "p", (TodoOutline("a b"), TodoOutline("c", "x", depends_on=(1,)))
    )


def test_a_plan_of_several_languages_is_no_file() -> None:
    outline = Outline("p", (TodoOutline("a", code="SELECT 1", language="sql"),))
    with pytest.raises(PlanError, match="a plan file has one language"):
        write_plan(outline, "toml")
