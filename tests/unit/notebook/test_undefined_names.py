"""Names that no cell defines."""

from __future__ import annotations

import pytest

from cellwright.notebook.python_names import cell_names, undefined_names


@pytest.mark.parametrize(
    ("source", "others", "names"),
    [
        ("print(total + rate)", ["total = 1"], ["rate"]),
        ("def f(x):\n    return x + missing", [], ["missing"]),
        ("def f(n):\n    return n\nn + 1", [], ["n"]),
        ("é = 'ä'; ä; wrong", [], ["ä", "wrong"]),
        ("display(_, In[1], get_ipython())", [], []),
        ("%matplotlib inline\nwrong", [], ["wrong"]),
        ("wrong", ["from numpy import *"], []),
        ("wrong", ["exec('wrong = 1')"], []),
        ("[x for x in range(3) if x > low]", [], ["low"]),
        ("this is no Python", [], []),
        ("later()", ["def later(): pass"], []),
    ],
)
def test_names_that_no_cell_defines_are_found_where_they_stand(
    source: str, others: list[str], names: list[str]
) -> None:
    found = undefined_names(source, [cell_names(other) for other in others])
    assert [one.name for one in found] == names
    assert all(source[one.start : one.end] == one.name for one in found)
