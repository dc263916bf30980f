"""``cellwright templates …``: which templates there are here and in galleries, and bringing one here. Using one is ``new``'s."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cellwright.cli._arguments import Argument, Option
from cellwright.cli._daemon_line import daemon_paths
from cellwright.cli._terminal import AsJson, ExitCode, ProgressLine, fail, note, show_data, show_error, table
from cellwright.errors import CellwrightError, TemplateError

if TYPE_CHECKING:
    from cellwright.templates import Catalogue, Parameter, Template
    from cellwright.templates.galleries import Galleries

__all__ = ["add", "index", "list_templates", "remove", "search", "show"]

_HEADS = ("NAME", "TITLE", "KIND", "FROM")

NameArgument = Annotated[str, Argument(metavar="NAME", help="The template's name.")]


def list_templates(as_json: AsJson = False) -> None:
    """List the templates that notebooks can begin with."""
    found = _catalogue().templates()
    show_data({"templates": [one.data() for one in found]}, table(_HEADS, _rows(found)), as_json=as_json)


def search(
    words: Annotated[
        list[str] | None, Argument(metavar="[WORD]...", help="What it is about. [default: all]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find templates, those of galleries too, by words in their names, descriptions and keywords."""
    wanted = " ".join(words or ())
    here = _catalogue().search(wanted)
    import anyio  # listing does without

    with ProgressLine("asking the galleries"):
        offers, problems = anyio.run(_galleries().offers)
    known = {(one.source, one.name) for one in here}
    there = [one for one in offers if one.is_about(wanted) and (one.gallery, one.name) not in known]
    rows = [*_rows(here), *((one.name, one.title, "to add", one.gallery) for one in there)]
    data = {"templates": [one.data() for one in here], "offers": [one.data() for one in there]}
    show_data(data, table(_HEADS, rows), as_json=as_json)
    for problem in problems:
        show_error(problem)
    if there:
        note("`cellwright templates add NAME` brings one of a gallery here; nothing of it is run")
    if not rows:
        note("None has all of these words: `cellwright templates list` shows what there is")


def add(
    name: NameArgument,
    gallery: Annotated[
        str | None,
        Option("--from", metavar="GALLERY", help="Of this gallery. [default: the first that has it]"),
    ] = None,
    called: Annotated[str | None, Option("--as", metavar="NAME", help="Under another name.")] = None,
    as_json: AsJson = False,
) -> None:
    """Bring a gallery's template here, held against its index, so that notebooks can begin with it. Nothing of it is run."""
    import anyio  # as above

    galleries = _galleries()
    try:
        with ProgressLine(f"bringing {name}"):
            found = anyio.run(partial(galleries.add, name, gallery=gallery, called=called))
    except CellwrightError as error:
        fail(error, ExitCode.RUN_FAILED)
    _write_down(added=found.name, source=found.source)
    show_data(found.data(), _described(found), as_json=as_json)


def remove(name: NameArgument, as_json: AsJson = False) -> None:
    """Let go of a template that was added. Notebooks that began with it stay as they are."""
    try:
        _galleries().remove(name)
    except CellwrightError as error:
        fail(error, ExitCode.BAD_USAGE)
    _write_down(removed=name)
    show_data({"removed": name}, f"{name}  removed", as_json=as_json)


def index(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="It holds a folder for each template.")],
    as_json: AsJson = False,
) -> None:
    """Check a folder of templates, and write its index with their SHA-256, to offer them as a gallery."""
    from cellwright.templates.galleries import INDEX, SIGNED_AS, index_text  # as below

    try:
        text = index_text(folder)
    except CellwrightError as error:
        fail(error, ExitCode.RUN_FAILED)
    (folder / INDEX).write_text(text, encoding="utf-8")
    names = list(json.loads(text)["templates"])
    show_data({"index": str(folder / INDEX), "templates": names}, "\n".join(names), as_json=as_json)
    note(f"wrote {folder / INDEX}; to sign it: ssh-keygen -Y sign -n {SIGNED_AS} -f KEY {folder / INDEX}")


def show(name: NameArgument, as_json: AsJson = False) -> None:
    """Show a template: what it is for, its parameters with types and defaults, packages and checks."""
    try:
        found = _catalogue().find(name)
    except TemplateError as error:
        fail(error, ExitCode.BAD_USAGE)
    show_data(found.data(), _described(found), as_json=as_json)


def _catalogue() -> Catalogue:
    from cellwright.plugins.registry import let_in  # most commands do without pydantic and plugins
    from cellwright.templates import Catalogue  # as above

    let_in(Path(daemon_paths().storage))
    return Catalogue.at(Path(daemon_paths().storage))


def _galleries() -> Galleries:
    from cellwright.settings import load_settings  # as above
    from cellwright.templates.galleries import Galleries  # as above
    from cellwright.tools import Fetcher  # as above

    try:
        settings = load_settings()
    except CellwrightError as error:
        fail(error)
    return Galleries(settings.templates, Path(daemon_paths().storage), Fetcher(settings).body)


def _write_down(**about: str) -> None:
    from cellwright.audit import AuditLog, acting  # as above

    with acting("command line"):
        AuditLog(Path(daemon_paths().storage)).note("templates", **about)


def _rows(templates: Iterable[Template]) -> list[tuple[str, str, str, str]]:
    return [(one.name, one.title, "plan" if one.is_plan else one.language, one.source) for one in templates]


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
