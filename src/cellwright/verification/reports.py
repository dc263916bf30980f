"""A verification as text for a reader and as JSON for a program, the same in every frontend. Pure."""

from __future__ import annotations

from typing import Any

from cellwright.notebook.outputs import clean
from cellwright.text_budget import cut_middle
from cellwright.verification import Certificate, CheckedCell, Verification

__all__ = ["verification_json", "verification_text"]

_MOST_LINES = 40
_MOST_DIFFERENCES = 3
_MOST_SHOWN = 600


def verification_json(verification: Verification) -> dict[str, Any]:
    """A verification as one object."""
    certificate = verification.certificate
    found: dict[str, Any] = {
        "status": verification.state,
        "session_id": verification.session_id,
        "verification_id": verification.id,
        "verified": verification.verified,
        "done": len(verification.checked),
        "total": len(verification.cells),
        "findings": [
            {
                "kind": one.kind,
                "cell_id": one.cell_id,
                "message": clean(one.message),
                "names": list(one.names),
            }
            for one in verification.findings
        ],
        "cells": [_cell_json(one) for one in verification.checked],
        "not_run": [cell.id for cell in verification.cells[len(verification.checked) :]],
    }
    if verification.reason is not None:
        found["reason"] = clean(verification.reason)
    if certificate is not None:
        found["certificate"] = {
            "at": certificate.at,
            "seconds": certificate.seconds,
            "python": certificate.python,
            "packages": certificate.packages,
            "inputs": certificate.inputs,
        }
    return found


def _cell_json(one: CheckedCell) -> dict[str, Any]:
    about: dict[str, Any] = {"cell_id": one.cell.id, "status": one.now.state, "same": one.same}
    if not one.same:
        about["differences"] = [
            {"output": each.output, "why": clean(each.why), "shown": clean(_shown(each))}
            for each in one.comparison.differences
        ]
    return about


def verification_text(verification: Verification) -> str:
    """A verification in lines: what it came to, what is doubtful, what differs and how, and what it ran with."""
    different = [one for one in verification.checked if not one.same]
    verdict = "verified" if verification.verified else ("not verified" if verification.done else "running")
    facts = [
        f"session {verification.session_id}",
        verdict,
        f"{len(verification.checked)} of {len(verification.cells)} cells",
        f"{len(different)} different" if different else "all the same",
    ]
    lines = [" | ".join(facts)]
    lines += [clean(verification.reason)] if verification.reason is not None else []
    for finding in verification.findings[:_MOST_LINES]:
        lines.append(f"{finding.kind}: cell {finding.cell_id} {clean(finding.message)}")
    lines += _more(len(verification.findings), "findings")
    for one in different[:_MOST_LINES]:
        lines.append(f"different: cell {one.cell.id} ({one.now.state})")
        for each in one.comparison.differences[:_MOST_DIFFERENCES]:
            shown = cut_middle(clean(_shown(each)), _MOST_SHOWN)
            lines.append(f"  {each.output}: {clean(each.why)}\n{shown}".rstrip())
    lines += _more(len(different), "cells that differ")
    if verification.certificate is not None:
        lines.append(_summary(verification.certificate))
    if not verification.done:
        call = f"plan_verify(session_id='{verification.session_id}')"
        lines.append(f"Still running: {call} goes on waiting")
    return "\n".join(lines)


def _shown(difference: Any) -> str:
    if difference.diff:
        return str(difference.diff)
    if difference.output == "state" or not (difference.expected or difference.got):
        return ""
    return f"-{difference.expected}\n+{difference.got}"


def _more(count: int, what: str) -> list[str]:
    return [f"… {count - _MOST_LINES} more {what}"] if count > _MOST_LINES else []


def _summary(certificate: Certificate) -> str:
    said = f"certificate in the notebook: {certificate.at}, {certificate.seconds:g} s, "
    if not certificate.python:
        return f"{said}{certificate.language}, whose packages and input files are not known"
    return (
        f"{said}Python {certificate.python}, {len(certificate.packages)} packages, "
        f"{len(certificate.inputs)} input files"
    )
