"""The tool that verifies a notebook: runs it from the top in a clean kernel and says what does not hold."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from cellwright.mcp._arguments import Arguments, ResponseFormat, SessionId, TimeoutS, WaitS
from cellwright.mcp._waits import wait_for_verification
from cellwright.mcp.calls import CHANGES, Call, Definition, Reply, data_reply
from cellwright.verification import Verification, Volatile, certificate_state, parse_mask
from cellwright.verification.reports import verification_json, verification_text

__all__ = ["VERIFICATION_TOOLS"]

_MOST_MASKS = 20
_MAX_MASK = 300
# So long may the end of one wait for whoever asked and had to go; then files may have changed.
_KEPT_S = 600.0


class VerifyNotebook(Arguments):
    session_id: SessionId = None
    wait_s: WaitS = None
    mask: list[Annotated[str, Field(max_length=_MAX_MASK)]] = Field(
        default=[], max_length=_MOST_MASKS, description="Names of masks, or patterns"
    )
    tolerance: float | None = Field(default=None, ge=0, lt=1, description="Between numbers, as a share")
    timeout_s: TimeoutS = None
    response_format: ResponseFormat = "text"
    cancel: bool = Field(default=False, description="Stop the one that runs")


async def plan_verify(call: Call, args: VerifyNotebook) -> Reply:
    """Check that a notebook is reproducible: run it from the top in a clean kernel, compare, certify. The session stays."""
    session = call.session(args.session_id)
    verifier = call.shared.verifier
    verification = verifier.of(session.id)
    if args.cancel:
        if verification is not None:
            await verification.cancel()
    elif verification is None or (verification.done and _was_reported(verification, session.document)):
        rules = Volatile(mask=tuple(map(parse_mask, args.mask)), tolerance=args.tolerance)
        verification = await verifier.start(session, rules=rules, timeout_s=args.timeout_s)
    if verification is None:
        return Reply(f"session {session.id} | nothing is being verified")
    await wait_for_verification(call, verification, wait_s=args.wait_s)
    if verification.done:
        verification.told = True
    if args.response_format == "json":
        return data_reply(verification_json(verification), call)
    return Reply(verification_text(verification))


def _was_reported(verification: Verification, document: Any) -> bool:
    """Whether somebody has seen its end, or it is of no use any more: the next call begins another."""
    outdated = verification.over_for_s > _KEPT_S or certificate_state(document) in ("stale", "none")
    return verification.told or outdated


VERIFICATION_TOOLS = (
    Definition(
        plan_verify,
        VerifyNotebook,
        CHANGES,
        asks_for=("session_id",),
        keeps_back=("mask", "tolerance", "timeout_s", "response_format", "cancel"),
    ),
)
