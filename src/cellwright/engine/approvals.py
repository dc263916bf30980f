"""Asks a person before something is done that the settings say is to be asked about, and keeps what they said.

The settings have a rule for each action: allow, ask or refuse; rules of plugins may be stricter
(``approval_rules``). A question is journalled before anybody sees it. It goes
to everybody who is there, the page, the terminal and the client that makes the call, and the first answer counts. What
code in a cell asks is ``questions``'s; who acts on a decision is whoever asked for it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias

import anyio
import msgspec
from msgspec import structs

from cellwright.audit import NOBODY, AuditLog, acting, actor
from cellwright.engine._approval_store import ApprovalStore, Remembered
from cellwright.engine.approval_rules import Matter, Scope, verdict_on
from cellwright.engine.event_kinds import EventKind
from cellwright.engine.journal import Journal
from cellwright.engine.records import Batch, Recorder, SessionRecord
from cellwright.errors import CellwrightError, NotApproved, QuestionOver
from cellwright.settings.model import Action, ApprovalRules, Rule

__all__ = [
    "CHOICES",
    "Action",
    "AnsweredLater",
    "Approval",
    "ApprovalParts",
    "Approvals",
    "Asker",
    "Choice",
    "Decision",
    "Matter",
    "Scope",
    "as_choice",
    "asked_through",
    "judged",
]

Choice: TypeAlias = Literal["once", "session", "project", "always", "refuse"]

CHOICES: dict[Choice, str] = {
    "once": "Allow once",
    "session": "Allow in this session",
    "project": "Allow in this project",
    "always": "Always allow",
    "refuse": "Refuse",
}
"""What a person may answer, in words."""

_ABIDE = "Do not work around it: go on without it, or ask the user what to do instead"


class Approval(msgspec.Struct, frozen=True):
    """A question that waits for a person's answer."""

    id: str
    matter: Matter
    by: str
    """Who would do it, as the audit log names them."""
    asked_at: float
    expires_at: float

    @property
    def choices(self) -> dict[Choice, str]:
        """What may be answered, with the words for it."""
        return {
            choice: words for choice, words in CHOICES.items() if choice in (*self.matter.scopes, "refuse")
        }


def as_choice(text: str) -> Choice:
    """The choice that a form names.

    Raises:
        CellwrightError: it is none.
    """
    found = next((choice for choice in CHOICES if choice == text), None)
    if found is None:
        raise CellwrightError(f"{text!r} is no answer", hint=f"Choose one of: {', '.join(CHOICES)}")
    return found


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether something may be done, who or what decided, and why."""

    allowed: bool
    by: str
    why: str
    hint: str = _ABIDE
    scope: Scope | None = None
    """For how long a person allowed it."""


def judged(rule: Rule, matter: Matter, session: Collection[str], remembered: Remembered) -> Decision | None:
    """What the rule and earlier answers decide; None where a person is to be asked. Pure."""
    setting = f"the setting approvals.{matter.action} = {rule!r}"
    if rule == "refuse":
        change = f'Do not work around it; the user can set {matter.action} = "ask" under [approvals] in cellwright.toml'
        return Decision(False, "rule", setting, change)
    if rule == "allow":
        return Decision(True, "rule", setting)
    if matter.action in remembered.always:
        return Decision(True, "remembered", "it is always allowed", scope="always")
    if matter.project is not None and matter.action in remembered.projects.get(matter.project, ()):
        return Decision(True, "remembered", f"it is allowed in {matter.project}", scope="project")
    if not matter.once and matter.action in session:
        return Decision(True, "remembered", "it is allowed in this session", scope="session")
    return None


def _approved_of(record: SessionRecord) -> tuple[str, ...]:
    """What was allowed in one session; its network when it was made, whatever was said then for how long."""
    network = ("network",) if record.network_allowed else ()
    return tuple(dict.fromkeys((*network, *record.approved)))


class AnsweredLater(Exception):  # no error: the call that asks is answered with the question
    """The person's answer comes with a later call, which asks for the same thing anew."""


class Asker(Protocol):
    """The way to the person of whoever asks for something: a client's elicitation, or a terminal."""

    @property
    def name(self) -> str:
        """The way to the person there, as the audit log names it."""

    @property
    def earlier(self) -> Collection[str]:
        """The questions that were put to the person in answer to earlier calls of this one."""

    def can_ask(self) -> bool:
        """Whether the person can be asked now, from this task."""

    def defer(self, question: Approval) -> None:
        """Raise ``AnsweredLater`` where the answer can come only with the client's next call."""

    async def ask(self, question: Approval) -> Choice | None:
        """Ask, and wait for the answer; None where the person cannot be asked after all."""

    def overtaken(self, decision: Decision) -> None:
        """Take note that it was allowed by somebody else than the person there."""


@dataclass(slots=True, eq=False)
class _Open:
    """A question, and what became of it."""

    question: Approval
    expiry: asyncio.TimerHandle
    journalled: asyncio.Future[None]
    """Done once the journal has it, and it can be shown."""
    decision: Decision | None = None
    over: anyio.Event = field(default_factory=anyio.Event)
    taken: bool = False
    """Whether a call waits for it or acts on it: no other may, or one yes would be acted on twice."""


@dataclass(slots=True, eq=False)
class _Round:
    """One call, the way to its person, and the questions that it waits for or acts on."""

    asker: Asker
    forget: list[Callable[[], None]] = field(default_factory=list)
    release: list[Callable[[], None]] = field(default_factory=list)


_round: ContextVar[_Round | None] = ContextVar("round", default=None)


@contextmanager
def asked_through(asker: Asker) -> Iterator[None]:
    """Have what is asked in here, and in tasks that are begun here, put to a person by this way, too."""
    current = _Round(asker)
    before = _round.set(current)
    try:
        yield
    except (AnsweredLater, BaseExceptionGroup) as error:
        later = _later_in(error)
        if later is None:
            raise
        # The next call begins anew: what was allowed to this one is that one's.
        current.forget.clear()
        for release in current.release:
            release()
        raise later from None
    finally:
        _round.reset(before)
        for forget in current.forget:
            forget()


def _later_in(error: BaseException) -> AnsweredLater | None:
    """Finds it also where a task group put it with what it ended."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for one in error.exceptions if (found := _later_in(one)) is not None), None)
    return error if isinstance(error, AnsweredLater) else None


@dataclass(frozen=True, slots=True)
class ApprovalParts:
    """What approvals need of their engine."""

    record: Callable[[str], SessionRecord | None]
    """A session's record; None where the session is gone."""
    records: Callable[[], list[SessionRecord]]
    """The records of all sessions."""
    update: Callable[[str, Batch, Mapping[str, Any]], None]
    """Changes fields of a session's record for something that has happened, and adds that to the batch."""
    propose: Callable[[str, Batch, Mapping[str, Any]], None]
    """Changes them unless the journal refuses the batch."""
    is_attended: Callable[[str | None], bool]
    """Whether the page is open on a session, or on any, for somebody who may run cells."""
    show: Callable[[], None]
    """Has every open page look for questions that are of no session."""


class Approvals:
    """Every question of one engine, and every answer that still holds."""

    def __init__(
        self,
        rules: ApprovalRules,
        store: ApprovalStore,
        recorder: Recorder,
        audit: AuditLog,
        parts: ApprovalParts,
    ) -> None:
        self.rules = rules
        self.store = store
        self._recorder = recorder
        self._audit = audit
        self._parts = parts
        self._open: dict[str, _Open] = {}
        """Those that wait, and those that were answered and not yet acted upon, by their ids."""

    def waiting(self, session_id: str | None = None) -> list[Approval]:
        """The questions that wait for an answer, oldest first; or those that one session's page shows: of it, or of none."""
        open_now = (one for one in self._open.values() if one.decision is None and one.journalled.done())
        found = (one.question for one in open_now)
        return [one for one in found if session_id is None or one.matter.session_id in (None, session_id)]

    def rule(self, action: Action) -> Rule:
        """What the settings say of an action."""
        rule: Rule = getattr(self.rules, action)
        return rule

    # Asking ------------------------------------------------------------------------------------------------------

    async def require(self, matter: Matter) -> None:
        """Return where it may be done.

        Raises:
            NotApproved: a rule, a person or nobody being there says no; the message says which.
        """
        decision = await self.decide(matter)
        if not decision.allowed:
            raise NotApproved(matter.what, decision.why, hint=decision.hint)

    async def decide(self, matter: Matter) -> Decision:
        """Whether something may be done: by its rule, by an earlier answer, or by asking. The audit log has it then."""
        verdict = await verdict_on(matter)
        if verdict is None:
            return await self._decided(matter, asks=False)
        if verdict.rule == "refuse":
            decision = Decision(False, "rule", verdict.why)
            self._note(matter, decision, actor())
            return decision
        decision = await self._decided(
            structs.replace(matter, what=f"{matter.what} ({verdict.why})"), asks=True
        )
        return decision if decision.allowed else replace(decision, why=f"{verdict.why}; {decision.why}")

    async def _decided(self, matter: Matter, *, asks: bool) -> Decision:
        """The same where no plugin's rule refuses it; ``asks``: one would have a person asked."""
        this = _round.get()
        asker = this.asker if this is not None and this.asker.can_ask() else None
        one = self._earlier_question(asker, matter)
        if one is None:
            decision = self.known(matter, asks=asks)
            if decision is None and asker is None and not self._is_attended(matter):
                decision = self._default("nobody is there to ask")
            if decision is not None:
                self._note(matter, decision, actor())
                return decision
            one = self._begin(matter)
        one.taken = True
        if this is not None and asker is not None:
            this.forget.append(partial(self._forget, one))
            this.release.append(partial(setattr, one, "taken", False))
        try:
            await one.journalled
            await self._answered(one, asker)
        except AnsweredLater:
            raise
        except BaseException:
            self._settle(one, Decision(False, NOBODY, "the call that asked for it ended first"))
            self._forget(one)
            raise
        if asker is None:
            self._forget(one)
        assert one.decision is not None  # over only then
        if asker is not None and one.decision.allowed and one.decision.by != asker.name:
            asker.overtaken(one.decision)
        return one.decision

    def known(self, matter: Matter, *, asks: bool = False) -> Decision | None:
        """What the rule or an earlier answer decides without asking, if it does; ``asks``: a plugin's rule would ask."""
        record = self._record_of(matter)
        session = record.approved if record is not None else ()
        rule = self.rule(matter.action)
        if asks and rule == "allow":
            rule = "ask"
        return judged(rule, matter, session, self.store.read() if rule == "ask" else Remembered())

    def _earlier_question(self, asker: Asker | None, matter: Matter) -> _Open | None:
        """The question about the same matter that an earlier call of this one was answered with."""
        found = (self._open.get(earlier) for earlier in (asker.earlier if asker is not None else ()))
        fitting = (one for one in found if one is not None and one.question.matter == matter)
        return next((one for one in fitting if not one.taken), None)

    def _begin(self, matter: Matter) -> _Open:
        """Have a question journalled, and shown to whoever is there once it is."""
        now, seconds = time.time(), self.rules.timeout_s
        question = Approval(f"a-{secrets.token_hex(8)}", matter, actor(), now, now + seconds)
        expiry = asyncio.get_running_loop().call_later(seconds, self._expire, question.id)
        batch = Batch(lasting=True)
        batch.statements.append(
            ("INSERT INTO approvals VALUES (?,?)", (question.id, msgspec.json.encode(question).decode()))
        )
        about = {"id": question.id, "action": matter.action, "what": matter.what, "by": question.by}
        self._tell(batch, question, "requested", about | {"expires_at": question.expires_at})
        one = self._open[question.id] = _Open(question, expiry, asyncio.get_running_loop().create_future())
        batch.undo.append(partial(self._forget, one))
        one.journalled = self._recorder.commit(batch)
        return one

    async def _answered(self, one: _Open, asker: Asker | None) -> None:
        if one.decision is not None or asker is None:
            await one.over.wait()
            return
        asker.defer(one.question)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._through, asker, one)
            await one.over.wait()
            tasks.cancel_scope.cancel()

    async def _through(self, asker: Asker, one: _Open) -> None:
        choice = await asker.ask(one.question)
        if choice is not None:
            try:
                await self.answer(one.question.id, choice, by=asker.name)
            except QuestionOver:  # somebody else was faster
                return
        elif not self._is_attended(one.question.matter):
            self._settle(one, self._default("the client could not ask its person, and nobody else is there"))

    # Answering ---------------------------------------------------------------------------------------------------

    async def answer(self, question_id: str, choice: Choice, *, by: str, at: str | None = None) -> None:
        """Decide a question; the first answer counts. ``at`` is the session on whose page it is answered.

        Raises:
            QuestionOver: it was decided already, or is not shown there.
        """
        one = self._open.get(question_id)
        elsewhere = one is not None and at is not None and one.question.matter.session_id not in (None, at)
        if one is None or one.decision is not None or elsewhere:
            raise QuestionOver(
                "The question is over: somebody else answered it, or nobody did in time",
                hint="`cellwright audit --kind approval` shows what was decided",
            )
        if choice not in one.question.choices:
            raise CellwrightError(
                f"{choice!r} is no answer to this question",
                hint=f"Choose one of: {', '.join(one.question.choices)}",
            )
        if choice == "refuse":
            self._settle(one, Decision(False, by, f"{by} refused it"))
            return
        matter = one.question.matter
        self._settle(one, Decision(True, by, f"{by} allowed it", scope=choice))
        if choice in ("project", "always"):
            project = matter.project if choice == "project" else None
            await anyio.to_thread.run_sync(self.store.remember, matter.action, project)

    def _settle(self, one: _Open, decision: Decision) -> None:
        """Make a decision known. In one step: whoever comes next finds it decided."""
        if one.decision is not None:
            return
        one.decision = decision
        matter, batch = one.question.matter, Batch(lasting=True)
        batch.statements.append(("DELETE FROM approvals WHERE id = ?", (one.question.id,)))
        record = self._record_of(matter)
        if decision.scope == "session" and record is not None:
            approved = tuple(dict.fromkeys((*record.approved, matter.action)))
            self._parts.update(record.id, batch, {"approved": approved})
        about = {
            "id": one.question.id,
            "allowed": decision.allowed,
            "by": decision.by,
            "scope": decision.scope,
        }
        self._tell(batch, one.question, "settled", {**about, "reason": decision.why})
        # Whoever waits acts once the journal has it, never before.
        batch.after.append(one.over.set)
        self._note(matter, decision, one.question.by)
        self._recorder.commit(batch)

    def _default(self, why: str) -> Decision:
        """What holds where no person answers."""
        allowed = self.rules.unanswered == "allow"
        hint = "Ask the user in the chat; on the page of the session (`cellwright ui`) they can answer when you call again"
        return Decision(allowed, NOBODY, f"{why}, and approvals.unanswered = {self.rules.unanswered!r}", hint)

    def _expire(self, question_id: str) -> None:
        one = self._open.get(question_id)
        if one is None:
            return
        late = f"nobody answered within {self.rules.timeout_s:g} s"
        if one.taken:
            self._settle(one, self._default(late))
        else:  # the client did not call again: nobody is there who would act on a yes
            self._settle(one, Decision(False, NOBODY, late))
            self._forget(one)

    def _forget(self, one: _Open) -> None:
        one.expiry.cancel()
        self._open.pop(one.question.id, None)

    def _is_attended(self, matter: Matter) -> bool:
        return self._parts.is_attended(matter.session_id)

    def _note(self, matter: Matter, decision: Decision, by: str) -> None:
        with acting(by):
            self._audit.note(
                "approval",
                session=matter.session_id,
                refused=None if decision.allowed else decision.why,
                action=matter.action,
                what=matter.what,
                decided_by=decision.by,
                why=decision.why if decision.allowed else None,
                scope=decision.scope,
            )

    def _tell(
        self, batch: Batch, question: Approval, what: Literal["requested", "settled"], about: dict[str, Any]
    ) -> None:
        record = self._record_of(question.matter)
        if record is not None:
            kind: EventKind = f"notebook.approval.{what}"  # type: ignore[assignment]  # both are kinds
            self._recorder.note(batch, kind, record, about)
        else:
            batch.after.append(self._parts.show)

    def _record_of(self, matter: Matter) -> SessionRecord | None:
        """The record of the session that a matter is about, if there is one."""
        return self._parts.record(matter.session_id) if matter.session_id is not None else None

    # What is remembered ------------------------------------------------------------------------------------------

    def kept(self) -> list[dict[str, str]]:
        """Every answer that still holds: its scope, its action, and the session or the project it is about."""
        stored = self.store.read()
        found: list[tuple[Scope, str, str]] = [("always", action, "") for action in stored.always]
        found += [
            ("project", action, path) for path, actions in stored.projects.items() for action in actions
        ]
        for record in self._parts.records():
            found += [("session", action, record.id) for action in _approved_of(record)]
        return [{"scope": scope, "action": action, "of": of} for scope, action, of in found]

    async def forget(self, action: Action | None, of: str | None) -> int:
        """Take back what was allowed: of one action or all, of one session or project or everywhere; how many answers.

        Raises:
            SaveFailed: what was allowed in a session could not be journalled.
        """
        gone = await anyio.to_thread.run_sync(self.store.forget, action, of)
        batch = Batch(lasting=True)
        for record in self._parts.records():
            if of in (None, record.id, record.project):
                before = _approved_of(record)
                left = tuple(one for one in before if action not in (None, one))
                gone += len(before) - len(left)
                if left != before:
                    kept = tuple(one for one in record.approved if one in left)
                    takes_back = record.network_allowed and "network" not in left
                    network = None if takes_back else record.network_allowed
                    fields = {"approved": kept, "network_allowed": network}
                    self._parts.propose(record.id, batch, fields)
        await self._recorder.commit(batch)
        self._audit.note("approval", forgotten=action or "all", of=of, answers=gone)
        return gone

    def recover(self, journal: Journal) -> None:
        """Refuse what an engine before this one left unanswered: whoever asked has gone with it."""
        for (row,) in journal.read("SELECT record FROM approvals"):
            question = msgspec.json.decode(row, type=Approval)
            expiry = asyncio.get_running_loop().call_later(0, int)
            why = "the daemon ended before anybody answered"
            done = asyncio.get_running_loop().create_future()
            self._settle(_Open(question, expiry, done), Decision(False, NOBODY, why))
