from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.notebook.python_names import cell_names, text_constants


@pytest.mark.parametrize(
    ("source", "uses", "defines"),
    [
        ("x = 1\nx + 1", set(), {"x"}),
        ("x = x + 1", {"x"}, {"x"}),
        ("x += y", {"x", "y"}, {"x"}),
        ("df['a'] = df.b", {"df"}, set()),
        ("for row in rows:\n    total = row", {"rows"}, {"row", "total"}),
        ("[n * k for n in ns if n > m]", {"ns", "k", "m"}, set()),
        ("[n for n in n]", {"n"}, set()),
        ("{a: b for a, b in pairs for b in a}", {"pairs"}, set()),
        ("[y := f(x), y ** 2]", {"f", "x"}, {"y"}),
        ("any((last := n) > 3 for n in ns)\nlast", {"any", "ns"}, {"last"}),
        ("def f(a, b=default):\n    c = a + outer\n    return c", {"default"}, {"f"}),
        ("def f():\n    return outer\nf()", {"outer"}, {"f"}),
        ("def f():\n    return g()\ndef g():\n    return outer + f()\nf()", {"outer"}, {"f", "g"}),
        ("def f():\n    return x\nx = 1\nf()", set(), {"f", "x"}),
        ("def f():\n    global made\n    made = 1\nf()\nmade", set(), {"f", "made"}),
        ("def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = 2\n    return g\nf()", set(), {"f"}),
        ("rows.apply(lambda r: r * rate)", {"rows", "rate"}, set()),
        ("f = lambda r: r * rate", set(), {"f"}),
        ("class C(Base):\n    a = outer\n    b = a\n    def m(self):\n        return inner", {"Base", "outer"}, {"C"}),
        ("class C:\n    def m(self):\n        return inner\nC().m()", {"inner"}, {"C"}),
        ("del x", {"x"}, set()),
        ("x = 1\ndel x\nx", {"x"}, set()),
        ("try:\n    pass\nexcept E as e:\n    print(e)", {"E", "print"}, set()),
        ("match p:\n    case {'a': a, **rest}:\n        a\n    case [first, *others]:\n        first", {"p"}, {"a", "rest", "first", "others"}),
        ("with open(p) as f, g() as (a, b):\n    f", {"open", "p", "g"}, {"f", "a", "b"}),
        ("import a.b as c\nfrom d.e import f as g\nc, g", set(), {"c", "g"}),
        ("x: int = y\nz: T", {"int", "y", "T"}, {"x"}),
        ("%time x = f(y)", {"f", "y"}, {"x"}),
        ("%%time\nx = f(y)", {"f", "y"}, {"x"}),
        ("%%timeit -n 3\nx = f(y)", {"f", "y"}, set()),
        ("%%capture seen\nprint(x)", {"print", "x"}, {"seen"}),
        ("%%bash\necho $x", set(), set()),
        ("files = !ls\nmode = %config\ndf?\nfiles", set(), {"files", "mode"}),
        ("if x:\n    %matplotlib inline\ny = 1", {"x"}, {"y"}),
        ("x = (a\n  % b)", {"a", "b"}, {"x"}),
        ("f'{x!r} {y:{w}}'", {"x", "y", "w"}, set()),
        ("await f(x)", {"f", "x"}, set()),
        ("not python at all (", set(), set()),
    ],
)  # fmt: skip
def test_names_that_a_cell_takes_and_leaves(source: str, uses: set[str], defines: set[str]) -> None:
    found = cell_names(source)
    assert (set(found.uses), set(found.defines)) == (uses, defines)


def test_what_a_function_uses_that_nobody_calls_is_used_later() -> None:
    found = cell_names("def f():\n    return outer + here\nhere = 1\ng = lambda: other")
    assert (found.uses, found.later) == (frozenset(), {"outer", "other"})


def test_what_may_define_anything_is_opaque() -> None:
    for source in ("from math import *", "%run other.py", "exec(code)", "globals()['x'] = 1"):
        assert cell_names(source).opaque, source
    assert not cell_names("import math\n%matplotlib inline").opaque


def test_modules_are_told_by_their_own_names() -> None:
    found = cell_names(
        "import pandas as pd, os.path\nfrom sklearn.linear_model import Ridge\nfrom . import x"
    )
    assert found.modules == {"pandas", "os", "sklearn"}


def test_texts_of_a_cell_are_found_also_beside_magics() -> None:
    assert text_constants("%matplotlib inline\ndf = read('data/a.csv', sep=';')") == ["data/a.csv", ";"]


@given(st.text(alphabet="xy=+-()[]:,. \n%!?#'\"defclassforinlambda*@0", max_size=60))
def test_any_text_can_be_read(source: str) -> None:
    cell_names(source)
