"""Which packages may be installed, and what was probably meant by a name that may not.

Pure. A list of names is a wall against look-alikes only as long as nothing else gets through, so a request is a name
with versions and nothing more: no address, no path, no option, no marker.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from cellwright.errors import PackageRefused

__all__ = ["DEFAULT_APPROVED", "ApprovedList", "Judged", "Requirement", "normal_name"]

SETTING = "approved_packages"

DEFAULT_APPROVED: tuple[str, ...] = (
    "beautifulsoup4",
    "duckdb",
    "lxml",
    "matplotlib",
    "numpy",
    "openpyxl",
    "pandas",
    "pillow",
    "plotly",
    "polars",
    "pyarrow",
    "requests",
    "scikit-learn",
    "scipy",
    "seaborn",
    "statsmodels",
    "sympy",
)

# What is imported under another name than it is installed by. A closed list: a full one would send a typing error
# to the one who registered the name.
IMPORT_NAMES = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "fitz": "pymupdf",
    "mpl-toolkits": "matplotlib",
    "pil": "pillow",
    "pptx": "python-pptx",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}

_MAX_LENGTH = 200
_MAX_REQUESTS = 50
_LIKENESS = 0.6
_VERSION = r"[A-Za-z0-9](?:[A-Za-z0-9.!_+-]|\*)*"
_CLAUSE = rf"(?:~=|==|!=|<=|>=|<|>)\s*{_VERSION}"
_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*"
    r"(?:\[\s*(?P<extras>[A-Za-z0-9._-]+(?:\s*,\s*[A-Za-z0-9._-]+)*)\s*\]\s*)?"
    rf"(?P<versions>{_CLAUSE}(?:\s*,\s*{_CLAUSE})*)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package by its normal name, its extras and its versions."""

    name: str
    extras: frozenset[str] = frozenset()
    versions: str = ""

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """A plain requirement, or None for anything else."""
        match = _REQUIREMENT.fullmatch(text.strip()) if len(text) <= _MAX_LENGTH else None
        if match is None:
            return None
        extras = frozenset(
            normal_name(extra.strip()) for extra in (match["extras"] or "").split(",") if extra
        )
        versions = ",".join("".join(part.split()) for part in (match["versions"] or "").split(",") if part)
        return cls(normal_name(match["name"]), extras, versions)

    def __str__(self) -> str:
        extras = f"[{','.join(sorted(self.extras))}]" if self.extras else ""
        return f"{self.name}{extras}{self.versions}"


@dataclass(frozen=True, slots=True)
class Judged:
    """The requested packages that may be installed."""

    approved: tuple[Requirement, ...]
    standard: tuple[str, ...]
    """Names of the standard library, which is there already."""


class ApprovedList:
    """The packages that may be requested by name; their dependencies come with them.

    An entry may hold versions (``pandas>=2``), which then bind every request, and extras (``pandas[excel]``), without
    which a request may have none: an extra brings in packages that the name alone does not.
    """

    def __init__(self, entries: Iterable[str] = DEFAULT_APPROVED) -> None:
        self._entries: dict[str, Requirement] = {}
        for text in entries:
            entry = Requirement.parse(text)
            if entry is None:
                raise PackageRefused(
                    f"{text!r} on the list of approved packages is no name with versions",
                    hint=f"Write entries of `{SETTING}` like pandas or `pandas>=2`",
                )
            self._entries[entry.name] = entry

    @property
    def bounds(self) -> list[str]:
        """The versions to which entries are bound, as constraints."""
        return [f"{entry.name}{entry.versions}" for entry in self._entries.values() if entry.versions]

    @property
    def packages(self) -> frozenset[str]:
        """Every name on the list."""
        return frozenset(self._entries)

    @property
    def imports(self) -> dict[str, str]:
        """Every package on the list by the names that it is imported by, spelt as ``normal_name`` does."""
        others = {name: package for name, package in IMPORT_NAMES.items() if package in self._entries}
        return {name: name for name in self._entries} | others

    def names(self, package: str) -> bool:
        """Whether the list names this package itself."""
        return package in self._entries

    def judge(self, requests: Sequence[str]) -> Judged:
        """Tell what may be installed.

        Raises:
            PackageRefused: at least one of them may not be, with all that may not and what was probably meant.
        """
        if len(requests) > _MAX_REQUESTS:
            raise PackageRefused(
                f"{len(requests)} packages were requested at once", hint=f"Request at most {_MAX_REQUESTS}"
            )
        approved: dict[str, Requirement] = {}
        standard: dict[str, None] = {}
        refused: list[PackageRefused] = []
        for text in requests:
            found = Requirement.parse(text)
            if found is not None and self._is_standard(text.strip(), found):
                standard[text.strip()] = None
            elif (refusal := self._refusal(text, found)) is not None:
                refused.append(refusal)
            elif found is not None:
                approved[str(found)] = found
        if refused:
            raise _all_of(refused)
        return Judged(tuple(approved.values()), tuple(standard))

    def _is_standard(self, text: str, found: Requirement) -> bool:
        return text in sys.stdlib_module_names and found.name not in self._entries

    def _refusal(self, text: str, found: Requirement | None) -> PackageRefused | None:
        if found is None:
            suggestion = self._nearest(text)
            return PackageRefused(
                f"{text[:_MAX_LENGTH]!r} is no package name with versions",
                suggestion=suggestion,
                hint=_did_you_mean(suggestion) or "Ask for a name such as pandas or `pandas>=2`",
            )
        entry = self._entries.get(found.name)
        if entry is None:
            return self._unlisted(found.name)
        if found.extras <= entry.extras:
            return None
        extra = ", ".join(sorted(found.extras - entry.extras))
        return PackageRefused(
            f"{found.name} is approved without its extra {extra}",
            suggestion=found.name,
            hint=f"Ask for {found.name} alone, or have the operator add `{found.name}[{extra}]` to `{SETTING}`",
        )

    def _unlisted(self, name: str) -> PackageRefused:
        provider = IMPORT_NAMES.get(name)
        if provider is not None and provider in self._entries:
            message = f"{name} is what the package {provider} is imported as"
            return PackageRefused(message, suggestion=provider, hint=f"Ask for {provider}")
        meant = provider or name
        also = f" (imported as {name})" if provider else ""
        suggestion = self._nearest(name)
        hint = _did_you_mean(suggestion) or f"Approved are: {', '.join(sorted(self._entries)) or 'none'}"
        return PackageRefused(
            f"{meant}{also} is not on the list of approved packages",
            suggestion=suggestion,
            hint=f"{hint}. If {meant} is needed, have the operator add it to `{SETTING}` in their cellwright.toml",
        )

    def _nearest(self, text: str) -> str | None:
        """The approved package whose name, or whose import's name, is most like this."""
        known = self.imports
        found = difflib.get_close_matches(normal_name(text[:_MAX_LENGTH]), known, n=1, cutoff=_LIKENESS)
        return known[found[0]] if found else None


def normal_name(name: str) -> str:
    """A package's name as all its spellings compare equal."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _did_you_mean(suggestion: str | None) -> str:
    return f"The nearest approved one is {suggestion}" if suggestion else ""


def _all_of(refused: list[PackageRefused]) -> PackageRefused:
    if len(refused) == 1:
        return refused[0]
    hints = dict.fromkeys(error.hint for error in refused if error.hint)
    suggestion = next((error.suggestion for error in refused if error.suggestion), None)
    message = "; ".join(error.message for error in refused)
    return PackageRefused(message, suggestion=suggestion, hint=". ".join(hints))
