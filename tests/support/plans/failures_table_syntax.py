"""Code that cannot be parsed, and can be repaired."""

from __future__ import annotations

from tests.support.plans.failures_rows import Row, mended

__all__ = ["ROWS"]


def broken(name: str, code: str, check: str) -> Row:
    return mended(name, "syntax", "syntax", code, check)


ROWS: tuple[Row, ...] = (
    broken("an if without a colon", "x = 3\nif x > 2\n    t = 'big'\nelse:\n    t = 'small'", "t == 'big'"),
    broken("a loop without a colon", "t = 0\nfor i in range(4)\n    t += i", "t == 6"),
    broken("a function without a colon", "def f(a, b=2)\n    return a + b\nt = f(1)", "t == 3"),
    broken("an else without a colon", "if False:\n    t = 1\nelse\n    t = 2", "t == 2"),
    broken("a parenthesis that is not closed", "t = sum([1, 2, 3]", "t == 6"),
    broken("a bracket that is not closed", "t = [1, 2, 3", "t == [1, 2, 3]"),
    broken("a brace that is not closed", "t = {'a': 1, 'b': 2", "t == {'a': 1, 'b': 2}"),
    broken("a quote that is not closed", "t = 'hello", "t == 'hello'"),
    broken("print as a statement", "t = 5\nprint 'the value is', t", "t == 5"),
    broken("print with a format", 't = 5\nprint "t is %d" % t', "t == 5"),
    broken(
        "except with a comma",
        "try:\n    1 / 0\nexcept ZeroDivisionError, e:\n    t = str(e)",
        "t == 'division by zero'",
    ),
    broken(
        "raise with a comma",
        "def f():\n    raise ValueError, 'bad'\ntry:\n    f()\nexcept ValueError as e:\n    t = str(e)",
        "t == 'bad'",
    ),
    broken("unequal as in Pascal", "t = 1 if 3 <> 4 else 2", "t == 1"),
    broken("a Markdown fence around it", "```python\nt = 1 + 1\n```", "t == 2"),
    broken(
        "quotes that a word processor made", "t = \u201chello\u201d + \u2018 you\u2019", "t == 'hello you'"
    ),
    broken("blanks that do not break", "t\u00a0= 1\nif\u00a0t:\n\u00a0\u00a0\u00a0\u00a0t = 2", "t == 2"),
    broken("full-width punctuation", "t = max\uff081\uff0c2\uff09", "t == 2"),
    broken("an assignment for a comparison", "x = 3\nif x = 3:\n    t = 'yes'", "t == 'yes'"),
    broken("else if", "x = 2\nif x == 1:\n    t = 'a'\nelse if x == 2:\n    t = 'b'", "t == 'b'"),
    broken("&& and ||", "a, b = True, False\nt = a && !b || b", "t is True"),
    broken("++", "t = 4\nt++", "t == 5"),
    broken("a line that is indented for no reason", "t = 1\n  t = t + 1", "t == 2"),
    broken("a body that is not indented", "def f(x):\nreturn x * 2\nt = f(4)", "t == 8"),
    broken("tabs among blanks", "if True:\n        t = 1\n\tt = 2", "t == 2"),
)
