"""The tool that verifies a notebook: runs it from the top in a clean kernel and says what does not hold."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from cellwright.mcp.arguments import Arguments, ResponseFormat, SessionId
from cellwright.mcp.budget import cut_middle
from cellwright.mcp.calls import CHANGES, Call, Definition, Reply, data_reply
from cellwright.mcp.outputs import clean
from cellwright.mcp.waiting import wait_for_verification
from cellwright.verification import (
    Certificate,
    CheckedCell,
    Verification,
    Volatile,
    certificate_state,
    parse_mask,
)

__all__ = ["VERIFICATION_TOOLS", "verification_json", "verification_text"]

_MOST_MASKS = 20
_MAX_MASK = 300
_MAX_TIMEOUT_MS = 7 * 24 * 3_600_000
_MAX_WAIT_MS = 280_000
_MOST_LINES = 40
_MOST_DIFFERENCES = 3
_MOST_SHOWN = 600
# So long may the end of one wait for whoever asked and had to go; then files may have changed.
_KEPT_S = 600.0


class VerifyNotebook(Arguments):
    session_id: SessionId = None
    # As other tools have it, without the words: every one of them costs every conversation.
    wait: int | None = Field(default=None, ge=0, le=_MAX_WAIT_MS)
    mask: list[Annotated[str, Field(max_length=_MAX_MASK)]] = Field(default=[], max_length=_MOST_MASKS)
    tolerance: float | None = Field(default=None, ge=0, lt=1)
    timeout: int | None = Field(default=None, gt=0, le=_MAX_TIMEOUT_MS)
    response_format: ResponseFormat = "text"
    cancel: bool = False


async def plan_verify(call: Call, args: VerifyNotebook) -> Reply:
    """Run it from the top in a clean kernel, compare, certify; the session stays."""
    session = call.session(args.session_id)
    verifier = call.shared.verifier
    verification = verifier.of(session.id)
    if args.cancel:
        if verification is not None:
            await verification.cancel()
    elif verification is None or (verification.done and _is_told(verification, session.document)):
        rules = Volatile(mask=tuple(map(parse_mask, args.mask)), tolerance=args.tolerance)
        timeout_s = args.timeout / 1_000 if args.timeout is not None else None
        verification = await verifier.start(session, rules=rules, timeout_s=timeout_s)
    if verification is None:
        return Reply(f"session {session.id} | nothing is being verified")
    await wait_for_verification(call, verification, wait_ms=args.wait)
    if verification.done:
        verification.told = True
    if args.response_format == "json":
        return data_reply(verification_json(verification), call)
    return Reply(verification_text(verification))


def _is_told(verification: Verification, document: Any) -> bool:
    """Whether somebody has seen its end, or it is of no use any more: the next call begins another."""
    outdated = verification.over_for_s > _KEPT_S or certificate_state(document) in ("stale", "none")
    return verification.told or outdated


# How it is told ------------------------------------------------------------------------------------------------------


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


VERIFICATION_TOOLS = (
    Definition(
        plan_verify,
        VerifyNotebook,
        CHANGES,
        asks_for=("session_id",),
        keeps_back=("mask", "tolerance", "timeout", "response_format", "cancel"),
    ),
)
