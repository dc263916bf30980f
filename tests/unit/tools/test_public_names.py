"""The library's one-shot calls, by the names under which they are imported."""

from __future__ import annotations

import pytest

from cellwright import tools


@pytest.mark.parametrize("name", tools.__all__)
def test_a_public_name_is_there(name: str) -> None:
    assert callable(getattr(tools, name))


def test_another_name_is_told_as_missing() -> None:
    with pytest.raises(AttributeError, match="no attribute 'run_notebook'"):
        _ = tools.run_notebook
