from __future__ import annotations

import pytest

from cellwright.plans import Failure, Proposal
from cellwright.plans.fixers import propose


def broken(source: str) -> Proposal | None:
    return propose(Failure(source, "error", "SyntaxError", "invalid syntax (1234.py, line 1)"))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("if x\n    y", "if x:\n    y"),
        ("for i in 'ab'  # each\n    y", "for i in 'ab':  # each\n    y"),
        ("if x:\n    y\nelse\n    z", "if x:\n    y\nelse:\n    z"),
        ("def f(\n    a,\n)\n    return a", "def f(\n    a,\n):\n    return a"),
        ("while a\n    b\nclass C\n    pass", "while a:\n    b\nclass C:\n    pass"),
        ("if x = 3:\n    y", "if x == 3:\n    y"),
        ("if a:\n  x\nelse if b:\n  y", "if a:\n  x\nelif b:\n  y"),
        ("if a && !b || c === d:\n  x", "if a and not b or c == d:\n  x"),
        ("x = a&&b", "x = a and b"),
        ("n++", "n += 1"),
        ("x = {'a': 1\n     'b': 2}", "x = {'a': 1,\n     'b': 2}"),
        ("improt os", "import os"),
        ("form math import sqrt", "from math import sqrt"),
        ("def f():\n    retrun 1", "def f():\n    return 1"),
    ],
)
def test_signs_and_words_are_mended(source: str, expected: str) -> None:
    assert mended(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("print 'a', b  # c", "print('a', b)  # c"),
        ("print 'a',\nprint\nprint >>f, 'x'", "print('a', end=\" \")\nprint()\nprint('x', file=f)"),
        ("if a: print 'x'; y = 1", "if a: print('x'); y = 1"),
        ("print 'a: %s' % (b,\n  c)", "print('a: %s' % (b,\n  c))"),
        ("try:\n    a\nexcept E, e:\n    b", "try:\n    a\nexcept E as e:\n    b"),
        ("try:\n    a\nexcept (E, F), e:\n    b", "try:\n    a\nexcept (E, F) as e:\n    b"),
        ("raise E, 'a, b'", "raise E('a, b')"),
        ("exec 'x = 1'", "exec('x = 1')"),
        ("exec code in space", "exec(code, space)"),
        ("x = a <> '<>'", "x = a != '<>'"),
        ("n = 10L", "n = 10"),
    ],
)
def test_python_2_becomes_python_3(source: str, expected: str) -> None:
    assert mended(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("```python\nx = 1\n```", "x = 1\n"),
        ("x = 1\n```\n", "x = 1\n"),
        (">>> x = (1 +\n...      2)\n>>> x\n3\n", "x = (1 +\n     2)\nx\n"),
        ("y = 1\n>>> x = 1", "y = 1\nx = 1"),
        ("print(“it\u2019s”)", 'print("it\u2019s")'),
        ("x\u00a0=\u00a0'\u00a0'", "x = '\u00a0'"),
        ("f\uff081\uff0c“\uff0c”\uff09", 'f(1,"\uff0c")'),
        ("\ufeffx = 1", "x = 1"),
        ("x = 5 \u2013 3  # 5 \u2013 3", "x = 5 - 3  # 5 \u2013 3"),
    ],
)
def test_marks_that_came_along_are_taken_off(source: str, expected: str) -> None:
    assert mended(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = [1, 2, 3\ny = 2", "x = [1, 2, 3]\ny = 2"),
        ("print(len(a)\nb", "print(len(a))\nb"),
        ("print(a * 1.1\nb", "print(a * 1.1)\nb"),
        ("x = f(1,\n      2\ny = 3", "x = f(1,\n      2)\ny = 3"),
        ("d = {'a': [1, 2}", "d = {'a': [1, 2]}"),
        ("df[(df.a > 1]", "df[(df.a > 1)]"),
        ("x = [i for i in range(3)\ny", "x = [i for i in range(3)]\ny"),
        ("if (a > 1:\n    b", "if (a > 1):\n    b"),
        ("print('a'))", "print('a')"),
        ("print('hello)", "print('hello')"),
        ("x = 'hello\ny = 2", "x = 'hello'\ny = 2"),
        ("x = df['a].sum()", "x = df['a'].sum()"),
        ("print(\"hello')", 'print("hello")'),
    ],
)
def test_brackets_and_quotes_are_closed_where_only_one_place_makes_sense(source: str, expected: str) -> None:
    assert mended(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("for i in a:\nb(i)", "for i in a:\n    b(i)"),
        ("def f(x):\nreturn x\nprint(f(1))", "def f(x):\n    return x\nprint(f(1))"),
        ("if a:\nb\nc\nelse:\nd", "if a:\n    b\n    c\nelse:\n    d"),
        ("x = 1\n  y = 2\nz = 3", "x = 1\ny = 2\nz = 3"),
        ("for i in a:\n    b\n      c\nd", "for i in a:\n    b\n    c\nd"),
        ("if a:\n\tb\n        c", "if a:\n        b\n        c"),
        ("if a:\nx = '''\n  text\n'''", "if a:\n    x = '''\n  text\n'''"),
    ],
)
def test_indentation_is_mended_where_nothing_else_is_possible(source: str, expected: str) -> None:
    assert mended(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "x = sum(a * 1.1",  # sum(a) * 1.1
        "if len(x > 3:\n    y",
        "x = (a + b * c",
        "x = (a + b)) * 2",
        "y = a * b + c)",
        "print('a, b)",  # 'a', b
        "x = 'hello  \ny = 2",  # with or without the white space
        "for i in a:\nb\nc",  # which of the two lines?
        "if x:\n    a\n   b",
        "if x:\n    a\nb\n    c",
        "while x = f():\n    y",  # may be kept
        "if !a == b:\n    c",
        "try:\n    a\nexcept KeyError, ValueError:\n    b",
        "m = 0755",
        "Look:\n```python\nx = 1\n```\nDone",
    ],
)
def test_what_may_be_meant_otherwise_is_only_suggested(source: str) -> None:
    found = broken(source)
    assert found is not None
    assert not found.applies


@pytest.mark.parametrize(
    "source",
    [
        "x = 5 +",
        "return 5",
        "x = ",
        "def",
        "x = '''abc",
        "class A:",
        "a b c",
        "]",
        "$",
        "x = 1",
        "",
        "\n",
        "`a`",
    ],
)
def test_what_is_no_mechanical_mistake_is_left_alone(source: str) -> None:
    assert broken(source) is None


def test_several_mistakes_are_mended_one_after_the_other() -> None:
    source = "```python\nfor i in range(3)\n    print i\n\nx = {'a': 1, 'b': 2\n```"
    expected = "for i in range(3):\n    print(i)\n\nx = {'a': 1, 'b': 2}\n"
    found = broken(source)
    assert found is not None
    assert found.applies
    assert found.source == expected
    assert "fence" in found.reason
    assert "colon" in found.reason


def test_one_unsure_step_makes_all_of_it_unsure() -> None:
    found = broken("if a\n    b\nx = sum(a * 1.1")
    assert found is not None
    assert not found.applies


def test_magics_and_top_level_await_do_not_hinder() -> None:
    source = "%%time\n!ls 'it\nx = !ls\nawait y\nprint 'a'\nz?"
    assert mended(source) == source.replace("print 'a'", "print('a')")


def test_a_cell_in_another_language_is_left_alone() -> None:
    assert broken("%%bash\nfor i in 1 2 3; do echo $i; done") is None


def mended(source: str) -> str:
    found = broken(source)
    assert found is not None
    assert found.applies, found
    assert found.source is not None
    return found.source


@pytest.mark.parametrize(
    "source",
    [
        "%timeit for i in range(3):\n    x = i\n",
        "%timeit -n 3 f(\n    a,\n    b,\n)",
        "%timeit\n    x = 1\n    y = 2",
        "%%timeit -n 1 x = 3\n    for i in y:\n        pass",
        "!ls |\n   wc",
    ],
)
def test_lines_that_follow_a_magic_are_left_alone(source: str) -> None:
    assert propose(Failure(source, "error", "SyntaxError", "invalid syntax")) is None
