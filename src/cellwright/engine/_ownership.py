"""Who owns a session: a person who took it over from an agent, until they give it back.

It refuses nobody by itself: a person works through the very same calls. Frontends for agents ask before they change
anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from cellwright.engine import _recovery
from cellwright.engine._context import SessionContext
from cellwright.engine.journal import Event
from cellwright.engine.records import Batch, Handback, Hold, Meanwhile
from cellwright.errors import SessionTaken

__all__ = ["Ownership", "changed_meanwhile"]

_TELLING = "kind IN ('notebook.state.changed', 'notebook.cell.executing')"
_EDITS = {"cell_added": "added", "source_changed": "edited", "cell_deleted": "deleted"}


class Ownership:
    """Who has one session."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._services = session.services

    def refuse(self, hold: Hold) -> NoReturn:
        """Refuse whoever works on it without being the one who has it.

        Raises:
            SessionTaken: always, with who has it.
        """
        with self._services.audit.outcome("take_over", session=self._session.id, held_by=hold.by):
            raise SessionTaken(hold.by, self._session.id)

    async def take_over(self, by: str) -> None:
        """Let a person have it alone, also instead of another one. What runs goes on."""
        before = self._session.record.hold
        if before is not None and before.by == by:
            return
        self._services.audit.note(
            "take_over", session=self._session.id, person=by, instead_of=before.by if before else None
        )
        recorder, batch = self._services.recorder, Batch()
        data = {"by": by, "instead_of": before.by} if before is not None else {"by": by}
        event = self._session.note(batch, "notebook.session.taken", data)
        # What an earlier person did since is news for the agents too, once it is given back.
        seq = before.seq if before is not None else event.seq
        # What was said of the time that an earlier person had it does not bind this one.
        approved = tuple(one for one in self._session.record.approved if one != "take_over")
        self._session.propose(batch, hold=Hold(by, event.time, seq), approved=approved)
        await recorder.commit(batch)

    async def give_back(self, by: str, note: str = "") -> Handback | None:
        """Let agents go on, and tell them what was done meanwhile and what the person says; None where nobody had it."""
        hold, recorder = self._session.record.hold, self._services.recorder
        if hold is None:
            return None
        self._services.audit.note("take_over", session=self._session.id, person=hold.by, given_back_by=by)
        await recorder.journal.catch_up()
        past = _recovery.read_event_rows(
            recorder.journal, f"session = ? AND seq > ? AND {_TELLING}", (self._session.id, hold.seq)
        )
        meanwhile, batch = changed_meanwhile(past), Batch()
        data = {"by": by, "note": note, **meanwhile.as_data()}
        event = self._session.note(batch, "notebook.session.given_back", data)
        handback = Handback(by, note, event.seq, meanwhile)
        self._session.propose(batch, hold=None, handback=handback)
        await recorder.commit(batch)
        return handback

    def note_client(self, client: str) -> None:
        """Keep the name of the program that works on it now. Waits for nobody."""
        batch = Batch()
        self._session.update(batch, client=client)
        self._services.recorder.commit(batch)


def changed_meanwhile(events: Iterable[Event]) -> Meanwhile:
    """Which cells came, changed, went and ran, each once, in the order in which that first happened. Pure."""
    found: dict[str, dict[str, None]] = {"added": {}, "edited": {}, "deleted": {}, "ran": {}}
    for event in events:
        if event.cell_id is None:
            continue
        if event.kind == "notebook.cell.executing":
            if event.data.get("state") == "queued":
                found["ran"][event.cell_id] = None
            continue
        change = event.data.get("change")
        if isinstance(change, dict) and (what := _EDITS.get(str(change.get("change")))) is not None:
            found[what][event.cell_id] = None
    added, deleted = set(found["added"]), set(found["deleted"])
    return Meanwhile(
        added=tuple(one for one in found["added"] if one not in deleted),
        edited=tuple(one for one in found["edited"] if one not in added | deleted),
        deleted=tuple(one for one in found["deleted"] if one not in added),
        ran=tuple(one for one in found["ran"] if one not in deleted),
    )
