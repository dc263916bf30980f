"""Formulas in LaTeX as MathML, which browsers draw by themselves. Pure; what cannot be read stays as its source."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from html import escape, unescape
from typing import Any

__all__ = ["bare_latex", "formula_html", "readable_latex"]
_MAX_CHARACTERS = 5_000

_TAGS = frozenset({
    "math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "ms", "mfrac", "msqrt", "mroot", "mstyle", "merror", "mpadded",
    "mphantom", "mfenced", "menclose", "msub", "msup", "msubsup", "munder", "mover", "munderover", "mmultiscripts",
    "mprescripts", "none", "mtable", "mtr", "mtd", "mlabeledtr",
})  # fmt: skip

# What the converter makes of a formula that ends too early lacks some.
_CHILDREN = {
    "mfrac": 2,
    "mroot": 2,
    "msub": 2,
    "msup": 2,
    "msubsup": 3,
    "munder": 2,
    "mover": 2,
    "munderover": 3,
}

_ATTRIBUTE = re.compile(r"[a-z]+")

_VALUE = re.compile(r"[\w .%#+-]*")

_UNREAD = re.compile(r"\\[A-Za-z]+")

_OPERATORS = re.compile(r"\\(arg|argmin|argmax|sgn|sign|diag|rank|trace|Var|Cov|softmax)(?![A-Za-z])")

_NUMBERED = re.compile(r"\\(?:label|tag)\*?\{[^{}]*\}|\\(?:nonumber|notag)\b")


def formula_html(latex: str, *, display: bool) -> str:
    """A formula as MathML, or its source where it cannot be read."""
    convert = _converter()
    shown = escape(latex)
    try:
        body = _mathml(convert, readable_latex(latex), display=display)
    except Exception:  # noqa: BLE001  # boundary: the converter fails in many ways, and the source is readable
        body = None
    if body is None:
        return f'<code class="formula"{" data-display" if display else ""}>{shown}</code>'
    return f'<div class="formula">{body}</div>' if display else body


def readable_latex(latex: str) -> str:
    """A formula without what only numbers equations, in words that the converter knows."""
    latex = _NUMBERED.sub("", latex).strip()
    latex = _OPERATORS.sub(r"\\operatorname{\1}", latex)
    for name in ("equation", "displaymath", "math"):
        for star in ("", "*"):
            start, end = f"\\begin{{{name}{star}}}", f"\\end{{{name}{star}}}"
            if latex.startswith(start) and latex.endswith(end):
                return latex[len(start) : -len(end)].strip()
    return latex


@functools.cache
def _converter() -> Any:
    from latex2mathml.converter import convert_to_element  # an extra

    return convert_to_element


def _mathml(convert: Any, latex: str, *, display: bool) -> str | None:
    if not latex or len(latex) > _MAX_CHARACTERS:
        return None
    element = convert(latex, display="block" if display else "inline")
    if any(_UNREAD.search(one.text or "") for one in element.iter() if one.tag != "mtext"):
        return None
    return "".join(_written(element))


def _written(element: Any) -> Iterator[str]:
    """The element as text. The converter's own writer escapes nothing."""
    tag = str(element.tag)
    if tag not in _TAGS or len(element) != _CHILDREN.get(tag, len(element)):
        raise ValueError(f"{tag} is not MathML")
    attributes = "".join(
        f' {name}="{escape(str(value))}"'
        for name, value in element.attrib.items()
        if _ATTRIBUTE.fullmatch(name)
        and name != "xmlns"
        and not name.startswith("on")
        and _VALUE.fullmatch(str(value))
    )
    yield f"<{tag}{attributes}>"
    yield escape(unescape(element.text or ""), quote=False)
    for child in element:
        yield from _written(child)
    yield f"</{tag}>"


# The marks around a formula that an output in LaTeX comes with.

_MARKS = (("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$"))


def bare_latex(text: str) -> str:
    """The formula alone."""
    text = text.strip()
    for start, end in _MARKS:
        if text.startswith(start) and text.endswith(end) and len(text) > len(start) + len(end):
            return text[len(start) : -len(end)].strip().removeprefix("\\displaystyle").strip()
    return text
