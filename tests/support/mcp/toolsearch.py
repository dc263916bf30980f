"""A search over tools as clients make one where they do not show a model all of them: BM25 over names and descriptions."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping

__all__ = ["ranked"]

_K1, _B = 1.5, 0.75
_STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "did",
        "do",
        "does",
        "for",
        "from",
        "go",
        "had",
        "has",
        "have",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "me",
        "my",
        "no",
        "not",
        "of",
        "on",
        "or",
        "our",
        "so",
        "such",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "up",
        "was",
        "we",
        "what",
        "which",
        "will",
        "with",
        "you",
        "your",
    ]
)
_SUFFIXES = ("ations", "ation", "ings", "ing", "ies", "ied", "ers", "er", "es", "ed", "s", "e", "y")


def ranked(intent: str, tools: Mapping[str, str]) -> list[str]:
    """The names of tools, the best first; ``tools`` are descriptions by name."""
    counts = {name: Counter(_words(f"{name} {text}")) for name, text in tools.items()}
    usual = sum(sum(count.values()) for count in counts.values()) / len(counts)
    wanted = set(_words(intent))
    holding = {word: sum(word in count for count in counts.values()) for word in wanted}

    def score(name: str) -> float:
        count, found = counts[name], 0.0
        length = _K1 * (1 - _B + _B * sum(count.values()) / usual)
        for word in wanted & count.keys():
            rarity = math.log(1 + (len(counts) - holding[word] + 0.5) / (holding[word] + 0.5))
            found += rarity * count[word] * (_K1 + 1) / (count[word] + length)
        return found

    return sorted(tools, key=lambda name: (-score(name), name))


def _words(text: str) -> list[str]:
    return [_stem(word) for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in _STOP_WORDS]


def _stem(word: str) -> str:
    """The word without its ending; crude, and the same for words and what is asked."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word.removesuffix(suffix)
    return word
