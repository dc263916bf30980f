"""What hosts tell, routed to the sessions it is about; and what the journal and a host know differently, settled.

What a session makes of it is ``host_reports``'s, how a host is heard ``host_link``'s.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from cellwright.engine.host_link import HostLink
from cellwright.engine.hosts import link_name, place_name
from cellwright.engine.journal import Statement
from cellwright.engine.records import Batch, Recorder
from cellwright.engine.session import Session
from cellwright.hosts import protocol

__all__ = ["Hearing"]

log = logging.getLogger(__name__)


class Hearing:
    """The engine, as a link to a host knows it (see ``host_link.LinkListener``)."""

    def __init__(self, sessions: Mapping[str, Session], recorder: Recorder) -> None:
        self._sessions = sessions
        self._recorder = recorder

    def taken(self, events: list[protocol.Event], consumed: Statement, committed: Callable[[], None]) -> None:
        """Fold what a host said into its sessions."""
        batch = Batch()
        for event in events:
            session = self._sessions.get(_session_of(event.kernel_id))
            if session is not None:
                self._take(batch, session, event)
        batch.statements.append(consumed)
        batch.after.append(committed)
        self._recorder.commit(batch)

    def _take(self, batch: Batch, session: Session, event: protocol.Event) -> None:
        try:
            session.reports.take(batch, event)
        except Exception:  # boundary: what one session cannot take in is told there, and nobody else notices
            log.exception("event_not_taken", extra={"session": session.id, "seq": event.seq})
            message = f"What the kernel's host told could not be taken in ({type(event.body).__name__})"
            data = {"code": "host", "message": message, "hint": "The engine's log has the reason"}
            self._recorder.note(batch, "notebook.error", session.record, data)

    def lost(self, link: HostLink, why: str) -> None:
        """A host is gone."""
        self._tell(link, lambda session, batch: session.reports.lose_host(batch, why))

    def out_of_reach(self, link: HostLink, why: str) -> None:
        """A host cannot be reached."""
        self._tell(link, lambda session, batch: session.reports.lose_sight(batch, why))

    async def back(self, link: HostLink, attached: protocol.Attached) -> None:
        """A host is reached again."""
        began = {session.id: session.record.kernel_id for session in self._on(link.name)}
        now = await link.call(protocol.Status(), protocol.Attached)
        # A kernel that was started meanwhile is in neither list, and is nobody's loss.
        fresh = {
            kernel_id
            for session in self._on(link.name)
            if (kernel_id := session.record.kernel_id) != began.get(session.id)
        }
        known = {kernel.kernel_id for kernel in now.kernels} | fresh
        await self.reconcile(link, attached, also=known)
        self._tell(link, lambda session, batch: session.reports.see_again(batch))

    async def reconcile(
        self, link: HostLink, attached: protocol.Attached, *, also: Collection[str | None] = ()
    ) -> None:
        """Settle what the journal and a host know differently, now that all the host said is taken in.

        ``also`` are kernels that it has since then.
        """
        living = {kernel.kernel_id: kernel for kernel in attached.kernels}
        sessions = [one for one in self._sessions.values() if link_name(one.record) == link.name]
        for session in sessions:
            if session.record.returning_to is not None:
                await session.checkpointing.complete_return(set(living))
        batch = Batch()
        for session in sessions:
            kernel = living.pop(session.record.kernel_id or "", None)
            if kernel is None and session.state == "active" and session.record.kernel_id not in also:
                session.reports.lose_host(batch, "The process that owned the kernel went away")
            elif kernel is not None:
                session.reports.drop_unknown(batch, {kernel.running, *kernel.waiting})
        await self._recorder.commit(batch)
        for session in sessions:
            session.checkpointing.undo_pending()
        for kernel_id in living:  # started for an engine that did not live to journal it
            await link.call(protocol.StopKernel(kernel_id), type(None))

    def kernels_on(self, name: str) -> int:
        """How many sessions have a kernel on a host."""
        active = (one.record for one in self._sessions.values() if one.state == "active")
        return sum(name in (place_name(record), link_name(record)) for record in active)

    def expiring(self) -> set[str]:
        """The hosts that said that their end is near."""
        return {link_name(one.record) for one in self._sessions.values() if one.record.expires_at is not None}

    def _on(self, name: str) -> list[Session]:
        return [
            one for one in self._sessions.values() if link_name(one.record) == name and one.state == "active"
        ]

    def _tell(self, link: HostLink, tell: Callable[[Session, Batch], None]) -> None:
        batch = Batch()
        for session in self._on(link.name):
            tell(session, batch)
        self._recorder.commit(batch)


def _session_of(kernel_id: str) -> str:
    return kernel_id.rpartition(".")[0]
