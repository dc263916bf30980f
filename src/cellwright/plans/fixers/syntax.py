"""Text that does not compile, mended by rule: one mistake after the other, until it does.

What it becomes is proposed only if it compiles, and is certain only if every step on the way was. Which steps there are
stands in ``marks``, ``python2``, ``punctuation``, ``brackets`` and ``indentation``.
"""

from __future__ import annotations

from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers.brackets import close_brackets, close_quote, fit_bracket
from cellwright.plans.fixers.cases import error_of
from cellwright.plans.fixers.cells import MAX_TEXT, syntax_error
from cellwright.plans.fixers.indentation import indent_block, level_lines, untangle_tabs
from cellwright.plans.fixers.marks import drop_fence, drop_prompts, plain_characters
from cellwright.plans.fixers.punctuation import (
    foreign_signs,
    keyword_slip,
    missing_colon,
    missing_comma,
    single_equals,
)
from cellwright.plans.fixers.python2 import call_statements, except_as, old_literals, raise_call
from cellwright.plans.fixers.repairs import Repair, Repaired

__all__ = ["fix_syntax"]

_ERRORS = frozenset(["SyntaxError", "IndentationError", "TabError", "_IncompleteInputError"])
_MAX_STEPS = 30

REPAIRS: tuple[Repair, ...] = (
    drop_fence,
    drop_prompts,
    plain_characters,
    call_statements,
    except_as,
    raise_call,
    old_literals,
    foreign_signs,
    missing_colon,
    single_equals,
    untangle_tabs,
    level_lines,
    indent_block,
    close_quote,
    fit_bracket,
    close_brackets,
    missing_comma,
    keyword_slip,
)


def fix_syntax(failure: Failure) -> Proposal | None:
    """Mend what is mechanical in a text that Python cannot read."""
    error = error_of(failure)
    if failure.state != "error" or failure.language != "python" or error is None or error.type not in _ERRORS:
        return None
    text, reasons, certain = failure.source, list[str](), True
    if len(text) > MAX_TEXT:
        return None
    for _ in range(_MAX_STEPS):
        wrong = syntax_error(text)
        if wrong is None:
            break
        step = _step(text, wrong)
        if step is None:
            return None
        text, certain = step.text, certain and step.certain
        if step.reason not in reasons:
            reasons.append(step.reason)
    if syntax_error(text) is not None or text == failure.source or not text.strip():
        return None
    told = "; ".join(reasons)
    return Proposal("syntax", told[:1].upper() + told[1:] + ".", text, certain=certain)


def _step(text: str, wrong: SyntaxError) -> Repaired | None:
    """The first repair that makes it compile, a certain one before others; else one after which Python gets further."""
    tried = [repaired for repair in REPAIRS for repaired in repair(text, wrong) if repaired.text != text]
    whole = [repaired for repaired in tried if syntax_error(repaired.text) is None]
    if whole:
        return next((repaired for repaired in whole if repaired.certain), whole[0])
    return next(
        (repaired for repaired in tried if repaired.certain and _further(text, wrong, repaired.text)), None
    )


def _further(text: str, wrong: SyntaxError, mended: str) -> bool:
    still = syntax_error(mended)
    if still is None:
        return True
    # What was taken off at the top moves every line up.
    moved = text.count("\n") - mended.count("\n")
    return ((still.lineno or 0) + moved, still.offset or 0) > (wrong.lineno or 0, wrong.offset or 0)
