"""Every document is in the site's navigation, and what it links to is there: pages, headings, pictures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.site import FENCE, ROOT, Pages, SiteError, collect, links, navigation, pages_in_order, rewritten

HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
SCHEME = re.compile(r"[a-z]+:")


@pytest.fixture(scope="module")
def pages() -> Pages:
    return collect()


def _anchors(text: str) -> set[str]:
    """The names that a forge gives a page's headings."""
    titles = (
        re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in HEADING.findall(FENCE.sub("", text))
    )
    plain = (re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles)
    return set(plain)


def test_every_page_has_one_place_in_the_navigation_and_a_title(pages: Pages) -> None:
    places = [place for _, place in pages_in_order(navigation(pages))]
    assert sorted(places) == sorted(pages.texts)
    assert all(pages.title(place) for place in places)


def test_links_and_pictures_lead_to_what_is_there(pages: Pages) -> None:
    texts = {source.resolve(): pages.texts[place] for place, source in pages.sources.items() if source}
    wrong = []
    for source, text in [*texts.items(), (ROOT / "README.md", (ROOT / "README.md").read_text())]:
        for match in links(text):
            target, _, anchor = match["target"].partition("#")
            if SCHEME.match(target):
                continue
            file = (source.parent / target).resolve() if target else source
            if not file.exists() or (anchor and file in texts and anchor not in _anchors(texts[file])):
                wrong.append(f"{source.relative_to(ROOT)} links to {match['target']}")
    assert not wrong, "Nothing is there:\n" + "\n".join(wrong)


def test_a_link_that_leads_nowhere_and_a_page_that_is_nowhere_are_refused(tmp_path: Path) -> None:
    page = ROOT / "docs" / "page.md"
    with pytest.raises(SiteError, match=r"docs/page\.md links to lost\.md"):
        rewritten(Pages({"page.md": "[a](lost.md)"}, {"page.md": page}), "page.md")
    everything = collect()
    everything.texts["nowhere/page.md"] = "# Page"
    with pytest.raises(SiteError, match=r"takes nowhere/page\.md"):
        navigation(everything)


def test_links_in_code_stay_as_they_are_and_files_that_are_no_pages_are_on_the_forge() -> None:
    text = "`[a](b.md)` [Makefile](../Makefile) [first](guides/plans.md#x)\n\n```\n[a](b.md)\n```\n"
    page = ROOT / "docs" / "page.md"
    guide = ROOT / "docs" / "guides" / "plans.md"
    pages = Pages({"a/page.md": text, "guides/plans.md": ""}, {"a/page.md": page, "guides/plans.md": guide})
    assert rewritten(pages, "a/page.md") == text.replace("../Makefile", _forge("Makefile")).replace(
        "(guides/", "(../guides/"
    )


def _forge(name: str) -> str:
    return f"https://github.com/cellwright/cellwright/blob/main/{name}"
