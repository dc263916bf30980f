"""Which passages of an answer hold no numbers of its own: code, links, headings, dates, names, labels. Pure.

What is found here is looked over by ``readings`` with these passages blanked, so that every place stays where it is.
"""

from __future__ import annotations

import re

__all__ = ["blanked", "link_ends"]

_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_YEAR = r"(?:19|20)\d\d"
_ENDS = r"(?![\w%]|[.,:]\d)"
_FILES = "csv|tsv|jsonl?|parquet|xlsx?|ipynb|py|txt|md|png|jpe?g|svg|html?|pdf|db|sqlite|feather|arrow|zip|gz|ya?ml|toml"
_LABELS = (
    "cells?|steps?|figures?|figs?|tables?|charts?|sections?|parts?|options?|pages?|versions?|questions?|notes?|"
    "footnotes?|appendix|chapters?|equations?|items?|lines?|exhibits?|todos?|attempts?|python|pandas|numpy|"
    "quarters?|weeks?|phases?|methods?|ports?|no|nr"
)
# What a bare number of four digits counts, where it is no year.
_COUNTED = (
    "rows?|records?|entries|observations?|samples?|values?|points?|people|units?|dollars?|euros?|pounds?|usd|eur|gbp|"
    "km|kg|m|g|columns?|customers?|users?|times|thousand|million|billion|trillion|per ?cent|percentage"
)
_COMPOUNDS = "fold|days?|years?|months?|weeks?|hours?|minutes?|sided|tailed|dimensional|d|digits?|steps?|way|bit|cells?|nearest"

_PASSAGES: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, flags)
    for pattern, flags in (
        (r"^(?P<fence>```+|~~~+)[^\n]*\n.*?(?:^(?P=fence)[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL),
        (r"(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)", re.DOTALL),
        (r"^ {0,3}#{1,6}[ \t][^\n]*$", re.MULTILINE),
        (r"^[^\n|]+\n(?=={2,}[ \t]*$)", re.MULTILINE),
        (r"<!--.{0,2000}?-->|</?[A-Za-z][^<>\n]*>", re.DOTALL),
        (r"!\[[^\[\]\n]*\]\([^()\n]*\)", 0),
        (r"(?<=\])\([^()\n]*\)|(?<=\])\[[^\[\]\n]*\]|\[\^?\d+\]", 0),
        (r"\b(?:https?|ftp|file|cellwright)://[^\s<>)\]]+|\bwww\.[^\s<>)\]]+", re.IGNORECASE),
        (r"^[ \t>]*(?:[-*+][ \t]+)?\(?\d{1,3}[.)](?=[ \t])", re.MULTILINE),
        (rf"(?<![\w./~-])[\w./~-]*[\w-]\.(?:{_FILES})\b", re.IGNORECASE),
        (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE),
        (r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{8,}\b", 0),
        # Dates and times.
        (
            rf"\b{_YEAR}-[01]\d(?:-[0-3]\d)?"
            r"(?:[T _]?[0-2]\d[:-]?[0-5]\d(?:[:-]?[0-5]\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)?" + _ENDS,
            0,
        ),
        (rf"\b{_YEAR}[01]\d[0-3]\d(?:[T_-]?\d{{4,6}})?{_ENDS}", 0),
        (rf"\b\d{{1,2}}([/.])\d{{1,2}}\1(?:{_YEAR}|\d\d){_ENDS}", 0),
        (
            rf"\b{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?(?:\s?[-\u2013]\s?\d{{1,2}})?(?:,?\s+{_YEAR})?{_ENDS}",
            0,
        ),
        (rf"\b\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?\b", 0),
        (r"\b[0-2]?\d:[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:\s?[ap]\.?m\.?)?" + _ENDS, re.IGNORECASE),
        (r"\b\d{1,2}\s?[ap]\.?m\b\.?", re.IGNORECASE),
        (
            rf"(?<![\w.,$€£¥]){_YEAR}\s?[-\u2013/]\s?(?:{_YEAR}|\d\d){_ENDS}(?!\s+(?:{_COUNTED})\b)",
            re.IGNORECASE,
        ),
        (
            rf"(?<![\w.,$€£¥+\u2212-]){_YEAR}(?:['\u2019]?s\b|{_ENDS})(?!\s*%|\s+(?:{_COUNTED})\b)",
            re.IGNORECASE,
        ),
        # Names and labels.
        (r"\b\d+(?:\.\d+)?(?:st|nd|rd|th)\b|\b24/7\b", re.IGNORECASE),
        (r"(?<![\w-])(?!(?:USD|EUR|GBP|CHF)\d)[A-Za-z_][\w-]*\d[\w-]*(?:\.\d+)*", 0),
        (r"\bv?\d+\.\d+\.\d+(?:\.\d+)*\b(?![,.]\d)", 0),
        (
            rf"\b(?:{_LABELS})\.?\s+#?\d+(?:\.\d+)?(?:(?:\s?[-\u2013]\s?|\s?,\s?|\s+and\s+|\s+to\s+)\d+)*{_ENDS}",
            re.IGNORECASE,
        ),
        (r"(?<!\w)#\d+\b", 0),
        (rf"\b\d+-(?:{_COMPOUNDS})\b", re.IGNORECASE),
        # What is agreed upon, and not found.
        (
            r"\b(?:90|95|98|99|99\.9)\s?%[ -](?=(?:confidence|credible|prediction|ci\b|interval))",
            re.IGNORECASE,
        ),
        (
            r"\b[p\u03b1]\s?(?:-?values?)?\s?(?:[<>≤≥]=?|below|above|under)\s?0?\.0*[15]\b(?!\d)",
            re.IGNORECASE,
        ),
        (r"\b(?:1|5|10)\s?%(?=\s+(?:significance|level))|\b(?:alpha|\u03b1)\s?=\s?0?\.\d+\b", re.IGNORECASE),
    )
)
_link = re.compile(r"\[[^\[\]\n]*\](?:\([^()\n]*\)|\[[^\[\]\n]*\])")


def blanked(text: str) -> str:
    """The same text, of the same length, with spaces where no number counts."""
    for passage in _PASSAGES:
        text = passage.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return text


def link_ends(text: str) -> list[tuple[int, int]]:
    """Where links begin and end: nothing is written inside of one."""
    return [found.span() for found in _link.finditer(text)]
