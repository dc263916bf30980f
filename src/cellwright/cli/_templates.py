"""``cellwright templates …``: which templates there are, and what one of them is. Making a notebook from one is ``new``'s."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cellwright.cli._daemon_line import daemon_paths
from cellwright.cli._terminal import AsJson, ExitCode, fail, note, show_data, table
from cellwright.errors import TemplateError

if TYPE_CHECKING:
    from cellwright.templates import Catalogue, Parameter, Template

__all__ = ["list_templates", "search", "show"]

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The template's name.")]


def list_templates(as_json: AsJson = False) -> None:
    """List the templates that notebooks can begin with."""
    _show_all(_catalogue().templates(), as_json=as_json)


def search(
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="What it is about.")],
    as_json: AsJson = False,
) -> None:
    """Find templates by words in their names, descriptions and keywords."""
    found = _catalogue().search(" ".join(words))
    _show_all(found, as_json=as_json)
    if not found:
        note("None has all of these words: `cellwright templates list` shows what there is")


def show(name: NameArgument, as_json: AsJson = False) -> None:
    """Show a template: what it is for, its parameters with types and defaults, packages and checks."""
    try:
        found = _catalogue().find(name)
    except TemplateError as error:
        fail(error, ExitCode.BAD_USAGE)
    show_data(found.data(), _described(found), as_json=as_json)


def _catalogue() -> Catalogue:
    from cellwright.templates import Catalogue  # most commands do without pydantic

    return Catalogue.at(Path(daemon_paths().storage))


def _show_all(templates: Iterable[Template], *, as_json: bool) -> None:
    found = list(templates)
    rows = [(one.name, one.title, "plan" if one.is_plan else one.language, one.source) for one in found]
    text = table(("NAME", "TITLE", "KIND", "FROM"), rows)
    show_data({"templates": [one.data() for one in found]}, text, as_json=as_json)


def _described(template: Template) -> str:
    kind = f"a plan in {template.language}" if template.is_plan else f"a {template.language} notebook"
    lines = [f"{template.title} ({kind}, from {template.source})", "", template.description, ""]
    rows = [(one.name, _type(one), json.dumps(one.default), one.description) for one in template.parameters]
    if rows:
        lines += [table(("PARAMETER", "TYPE", "DEFAULT", ""), rows), ""]
    if template.packages:
        lines.append(f"packages: {', '.join(template.packages)}")
    lines += [f"check: {check}" for check in template.checks]
    first = template.parameters[0].name if template.parameters else None
    lines.append(f"begin: cellwright new -t {template.name}" + (f" -p {first}=…" if first else ""))
    return "\n".join(lines)


def _type(parameter: Parameter) -> str:
    if parameter.choices:
        return "|".join(map(str, parameter.choices))
    return f"{parameter.type} or none" if parameter.optional else parameter.type
