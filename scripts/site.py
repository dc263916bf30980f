#!/usr/bin/env python3
"""Builds the documentation site: ``python scripts/site.py [--to FOLDER]``, or ``make site``.

Stages the Markdown of ``docs/`` with the pages that the code itself writes (``reference_pages.py``), leads links of
files that are no pages to the forge, and has Zensical make HTML of it, with warnings as errors. Navigation is in
``docs/site/site.toml``; why it is done this way in ADR 53.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # where it is run as a script

from scripts.reference_pages import reference_pages

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CONFIG = tomllib.loads((DOCS / "site" / "site.toml").read_text())
GENERATOR = ROOT / ".venv" / "site" / "bin" / "zensical"
WORKER_SHIM = re.compile(r'<script src="https://unpkg\.com/iframe-worker/shim"[^>]*></script>')
ANSI = re.compile(r"\x1b\[[0-9;]*m")
FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2[ \t]*$", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(
    r"(?<!\\)(?P<before>!?\[(?:[^\]\[]|\[[^\]]*\])*\]\()(?P<target>[^)\s]+)(?P<after>(?:\s+\"[^\"]*\")?\))"
)
DRAWING = re.compile(r"^!\[(?P<text>[^\]]*)\]\((?P<file>[\w./-]+\.svg)\)$", re.MULTILINE)
LIGHT = re.compile(r"^(?P<before>!\[[^\]]*\]\()(?P<stem>[\w./-]+)-light\.png\)$", re.MULTILINE)
TABLE = re.compile(r"<tbody>.*?</tbody>", re.DOTALL)
STYLE = re.compile(r"<style>.*?</style>\s*", re.DOTALL)
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


class SiteError(Exception):
    """The pages cannot be made into a site."""


@dataclass
class Pages:
    """All pages of the site by their place in it, with the file of the repository that each comes from, if any."""

    texts: dict[str, str]
    sources: dict[str, Path | None]
    assets: dict[str, Path] = field(default_factory=dict)

    @property
    def places(self) -> dict[Path, str]:
        """Where each file of the repository stands in the site."""
        pages = {source: place for place, source in self.sources.items() if source is not None}
        return pages | {source: place for place, source in self.assets.items()}

    def title(self, place: str) -> str:
        found = TITLE.search(self.texts[place])
        if found is None:
            raise SiteError(f"{place} has no title: begin it with `# `")
        return found[1]


def collect() -> Pages:
    """Read every page, and let the code write its own."""
    sources: dict[str, Path | None] = {}
    assets = {}
    for file in sorted(DOCS.rglob("*")):
        place = file.relative_to(DOCS).as_posix()
        if file.is_file() and not place.startswith("site/") and "__pycache__" not in place:
            if file.suffix == ".md":
                sources[place.replace("README.md", "index.md")] = file
            elif file.suffix in {".png", ".svg", ".gif", ".webp", ".json"}:
                assets[place] = file
    for name, place in CONFIG["root_pages"].items():
        sources[place] = ROOT / name
    texts = {place: source.read_text() for place, source in sources.items() if source is not None}
    for place, text in reference_pages().items():
        sources[place] = None
        texts[place] = text
    return Pages(texts, sources, assets)


def links(text: str) -> Iterator[re.Match[str]]:
    """Links and pictures of a page, but for those in code."""
    code = [match.span() for match in FENCE.finditer(text)]
    code += [match.span() for match in CODE_SPAN.finditer(text)]
    for match in LINK.finditer(text):
        if not any(begin < match.start("target") < end for begin, end in code):
            yield match


def rewritten(pages: Pages, place: str) -> str:
    """A page's text with links that hold in the site: to other pages by their place, to other files on the forge."""
    text, source = pages.texts[place].replace("```python no-run", "```python"), pages.sources[place]
    if source is None:
        return text
    places = pages.places
    parts, end = [], 0
    for match in links(text):
        target, _, anchor = match["target"].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            continue
        file = Path(os.path.normpath(source.parent / target))
        if (there := places.get(file)) is not None:
            new = os.path.relpath(there, PurePosixPath(place).parent)
        elif file.exists() and file.is_relative_to(ROOT):
            kind = "tree" if file.is_dir() else "blob"
            new = f"{CONFIG['forge']}/{kind}/main/{file.relative_to(ROOT)}"
        else:
            raise SiteError(f"{source.relative_to(ROOT)} links to {target}, where nothing is")
        parts += [text[end : match.start("target")], new + (f"#{anchor}" if anchor else "")]
        end = match.end("target")
    return "".join([*parts, text[end:]])


def _drawn(text: str, folder: Path) -> str:
    """Put drawings into the page, so that its colours are theirs. Their own style serves readers on a forge."""

    def inline(match: re.Match[str]) -> str:
        drawing = STYLE.sub("", (folder / match["file"]).read_text()).strip()
        return f'<div class="drawing">{drawing}</div>'

    return DRAWING.sub(inline, text)


def _in_both_colours(text: str, folder: Path) -> str:
    """Show a picture's dark sister where the page is dark: the theme hides the one that is marked for the other."""

    def both(match: re.Match[str]) -> str:
        light, dark = (f"{match['stem']}-{scheme}.png" for scheme in ("light", "dark"))
        if not (folder / dark).is_file():
            return match[0]
        return f"{match['before']}{light}#only-light)\n{match['before']}{dark}#only-dark)"

    return LIGHT.sub(both, text)


def navigation(pages: Pages) -> list[dict[str, Any]]:
    """The sections of the configuration, with every page in exactly one.

    Raises:
        SiteError: a page is in none, or one that is named is not there.
    """
    named = {page for entry in _entries() for page in entry.get("pages", ()) if "*" not in page}
    left = set(pages.texts) - named
    if missing := sorted(named - set(pages.texts)):
        raise SiteError(f"site.toml names pages that are not there: {', '.join(missing)}")

    def expanded(entry: dict[str, Any]) -> dict[str, Any]:
        found: list[Any] = []
        for pattern in entry.get("pages", ()):
            if "*" in pattern:
                taken = sorted(page for page in left if fnmatch(page, pattern))
                left.difference_update(taken)
                found += taken
            else:
                found.append(pattern)
        found += [expanded(group) for group in entry.get("group", ())]
        return {entry["title"]: found}

    sections = [expanded(section) for section in CONFIG["section"]]
    if left:
        raise SiteError(f"No section of docs/site/site.toml takes {', '.join(sorted(left))}")
    return sections


def _entries() -> Iterator[dict[str, Any]]:
    for section in CONFIG["section"]:
        yield section
        yield from section.get("group", ())


def pages_in_order(sections: list[Any]) -> Iterator[tuple[str, str]]:
    """Each page with the title of its section, as the navigation has them."""
    for section in sections:
        for title, entries in section.items():
            for entry in entries:
                if isinstance(entry, str):
                    yield title, entry
                else:
                    yield from pages_in_order([entry])


def write_for_models(pages: Pages, sections: list[Any], to: Path) -> None:
    """``llms.txt``, which lists the pages as Markdown, and ``llms-full.txt``, which has them all."""
    short = [f"# {CONFIG['title']}", "", f"> {CONFIG['summary']}"]
    full = list(short)
    group = None
    for title, place in pages_in_order(sections):
        if title != group:
            short += ["", f"## {title}", ""]
            group = title
        short.append(f"- [{pages.title(place)}]({place})")
        if title != "Decisions":
            full += ["", f"<!-- {place} -->", "", rewritten(pages, place).strip()]
    (to / "llms.txt").write_text("\n".join(short) + "\n")
    (to / "llms-full.txt").write_text("\n".join(full) + "\n")


def stage(to: Path) -> tuple[Pages, list[dict[str, Any]]]:
    """Write all that the generator reads below a fresh folder."""
    pages = collect()
    sections = navigation(pages)
    shutil.rmtree(to, ignore_errors=True)
    for place in pages.texts:
        file = to / "docs" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        text = rewritten(pages, place)
        source = pages.sources[place]
        if source is not None:
            text = _in_both_colours(_drawn(text, source.parent), source.parent)
        file.write_text(text)
    for place, source in pages.assets.items():
        (to / "docs" / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, to / "docs" / place)
    for name in ("extra.css", "file-search.js"):
        shutil.copyfile(DOCS / "site" / name, to / "docs" / name)
    (to / "mkdocs.yml").write_text(json.dumps(_generator_config(_with_titles(sections, pages)), indent=1))
    return pages, sections


def _with_titles(sections: list[Any], pages: Pages) -> list[Any]:
    """The navigation with short titles: of a page's title, what stands before the colon."""

    def short(entry: Any) -> Any:
        if isinstance(entry, str):
            return {pages.title(entry).partition(": ")[0].replace("`", ""): entry}
        return {title: [short(one) for one in entries] for title, entries in entry.items()}

    return [short(section) for section in sections]


def _generator_config(sections: list[dict[str, Any]]) -> dict[str, Any]:
    """What Zensical is told; JSON is YAML, too."""
    schemes = {"default": "light", "slate": "dark"}
    palette = [
        {
            "media": f"(prefers-color-scheme: {name})",
            "scheme": scheme,
            "toggle": {"icon": f"lucide/{icon}", "name": f"Show in {other}"},
        }
        for (scheme, name), icon, other in zip(
            schemes.items(), ("sun", "moon"), ("dark", "light"), strict=True
        )
    ]
    return {
        "site_name": CONFIG["title"],
        "site_description": CONFIG["summary"],
        "repo_url": None,
        "docs_dir": "docs",
        "site_dir": "site",
        "use_directory_urls": False,
        "nav": sections,
        "extra_css": ["extra.css"],
        "theme": {
            "font": False,
            "palette": palette,
            "features": [
                "content.code.copy", "navigation.footer", "navigation.indexes", "navigation.path",
                "navigation.tabs", "navigation.top", "search.highlight", "toc.follow",
            ],
        },
        "plugins": [{"search": {}}, {"offline": {}}],
        "markdown_extensions": [
            "admonition", "attr_list", "md_in_html", "tables", "pymdownx.superfences",
            {"pymdownx.highlight": {"pygments_lang_class": True}},
            {"toc": {"permalink": True, "slugify": {"object": "pymdownx.slugs.slugify", "kwds": {"case": "lower"}}}},
        ],
    }  # fmt: skip


def build(to: Path, *, staged: Path, generator: Path = GENERATOR) -> Path:
    """Make the whole site in a folder.

    Raises:
        SiteError: a page is wrong, or the generator is not there.
    """
    if not generator.exists():
        raise SiteError(f"{generator} is not there: run `make site`, which installs it")
    pages, sections = stage(staged)
    done = subprocess.run(
        [generator, "build", "--strict", "--clean", "-f", staged / "mkdocs.yml"],
        cwd=staged,
        capture_output=True,
        text=True,
        check=False,
    )
    said = ANSI.sub("", done.stdout + done.stderr)
    if done.returncode != 0 or "Warning:" in said:
        raise SiteError(f"The generator found fault:\n{said.partition('Traceback')[0]}")
    built = staged / "site"
    _finish(built, pages, sections)
    shutil.rmtree(to, ignore_errors=True)
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(built, to)
    return to


def _finish(built: Path, pages: Pages, sections: list[Any]) -> None:
    """Let nothing come from elsewhere, and add what models read."""
    for file in built.rglob("*.html"):
        up = "../" * (len(file.relative_to(built).parts) - 1)
        text, replaced = WORKER_SHIM.subn(f'<script src="{up}file-search.js"></script>', file.read_text())
        if not replaced:
            raise SiteError(
                f"{file.name} loads no shim for workers: the generator has changed, look at its pages"
            )
        # In tables the generator leaves the mark before a bar in code, which is there for the table's sake.
        file.write_text(TABLE.sub(lambda table: table[0].replace("\\|", "|"), text))
    (built / "sitemap.xml").unlink(missing_ok=True)
    for place in pages.texts:
        (built / place).parent.mkdir(parents=True, exist_ok=True)
        (built / place).write_text(rewritten(pages, place))
    write_for_models(pages, sections, built)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--to", type=Path, default=ROOT / "build" / "site", help="where the site goes [build/site]"
    )
    arguments = parser.parse_args()
    try:
        to = build(arguments.to.resolve(), staged=ROOT / ".cache" / "site")
    except SiteError as error:
        sys.exit(f"error: {error}")
    print(f"{to / 'index.html'}: opens from the file, or by `python -m http.server -d {to}`")


if __name__ == "__main__":
    main()
