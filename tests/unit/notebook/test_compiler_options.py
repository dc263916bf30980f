"""Compiler options as they are given, refused and kept."""

from __future__ import annotations

from typing import Any

import pytest

from cellwright.errors import NotebookError
from cellwright.notebook.compiler_options import checked_tsconfig


def test_options_are_kept_as_a_tsconfig_json_has_them_however_they_are_given() -> None:
    options = {"strict": True, "target": "ES2022", "lib": ["dom"], "paths": {"@/*": ["./*"]}}
    assert checked_tsconfig(options) == {"compilerOptions": options}
    whole = {"compilerOptions": options, "include": ["src"]}
    assert checked_tsconfig(whole) == whole
    assert checked_tsconfig({}) == {"compilerOptions": {}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"strcit": True}, "no compiler option 'strcit'. Did you mean strict?"),
        ({"noimplicitany": True}, "Did you mean noImplicitAny?"),
        ({"strict": "yes"}, "strict cannot be 'yes'. Give true or false"),
        ({"target": "es5000"}, "target cannot be 'es5000'. Give one of es3, es5"),
        ({"lib": "dom"}, "lib cannot be 'dom'. Give a list"),
        ({"baseUrl": 7}, "Give a text"),
        ({"paths": []}, "Give an object of lists"),
        ({"maxNodeModuleJsDepth": True}, "Give a number"),
        ({"compilerOptions": {"strict": 1}}, "Give true or false"),
        ({"compilerOptions": []}, "compilerOptions is no object"),
        ({"compilerOptions": {}, "inculde": []}, "tsconfig has no 'inculde'. Did you mean include?"),
    ],
)
def test_a_wrong_option_is_refused_with_what_it_takes(given: dict[str, Any], said: str) -> None:
    with pytest.raises(NotebookError) as refused:
        checked_tsconfig(given)
    assert said in str(refused.value)
