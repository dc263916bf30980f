"""Questions that a session's code asks, by ``input()`` and its like, and the people who can answer them.

A question is an event; its answer is in none. It waits while a person can be asked: on a page that is open on the
notebook, or by the client that began the execution, if it declared that it can ask. Without one, the question is
declined at once. The host keeps the time limit of an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import anyio

from cellwright.engine._context import SessionContext
from cellwright.engine.records import Batch, ExecutionRecord
from cellwright.errors import HostError, QuestionOver
from cellwright.hosts.protocol import AnswerInput, InputRequested, InputSettled, Question

__all__ = ["Question", "Questions"]

NOBODY = "nobody is there to answer: no page is open on this notebook, and the client cannot ask its person"

NO_PASSWORDS = (
    "a password is asked for only on the notebook's page, if that is open, and by the command line "
    "(`cellwright exec`)"
)


class Questions:
    """The question of one session, at most one at a time."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._current: Question | None = None
        self._attending = 0
        self._expected: dict[str, bool] = {}
        """The executions of clients that can ask a person, and whether for passwords, too."""
        self._changed = anyio.Event()

    @property
    def current(self) -> Question | None:
        """The question that waits for an answer."""
        return self._current

    def of(self, execution_id: str) -> Question | None:
        """The question that an execution waits with."""
        current = self._current
        return current if current is not None and current.execution_id == execution_id else None

    @property
    def of_no_cell(self) -> Question | None:
        """The question of code that is in no cell."""
        record = self._record(self._current.execution_id) if self._current is not None else None
        return self._current if record is None or record.cell_id is None else None

    async def change(self) -> None:
        """Return when the question changes or is over."""
        await self._changed.wait()

    @property
    def is_attended(self) -> bool:
        """Whether a person sees questions, on an open page."""
        return self._attending > 0

    # Who is there ------------------------------------------------------------------------------------------------

    @contextmanager
    def attended(self) -> Iterator[None]:
        """Somebody sees meanwhile what is asked, and can answer."""
        self._attending += 1
        try:
            yield
        finally:
            self._attending -= 1

    @contextmanager
    def expected(self, *, passwords: bool) -> Iterator[Callable[[Iterable[str]], None]]:
        """Somebody begins executions meanwhile, which are given to what this yields, and will answer what they ask."""
        begun: list[str] = []
        with self.attended():
            yield begun.extend
        live = {execution.id for execution in self._session.runs.live}
        self._expected = {known: value for known, value in self._expected.items() if known in live}
        self._expected |= {execution_id: passwords for execution_id in begun if execution_id in live}
        if self._current is not None and self._current.execution_id in begun:
            self._decline_unattended(self._current)

    async def answer(self, question: Question, value: str) -> None:
        """Give the code an answer, which is kept nowhere.

        Raises:
            QuestionOver: it was answered by somebody else, or the code no longer waits.
        """
        if self._current != question:
            raise QuestionOver(
                "The question is over: it was answered already, or the cell no longer waits",
                hint="Look at the cell: it may have ended, or ask something else",
            )
        await self._send(question, value, "")

    async def decline(self, question: Question, reason: str) -> None:
        """Give the code no answer, with the reason."""
        with suppress(HostError):  # with its host the question went
            await self._send(question, None, reason)

    async def _send(self, question: Question, value: str | None, reason: str) -> None:
        kernel_id = self._session.record.kernel_id
        if kernel_id is not None:
            request = AnswerInput(kernel_id, question.execution_id, question.number, value, reason)
            await self._session.host.call(request, type(None))

    # What the host reports ---------------------------------------------------------------------------------------

    def take(self, batch: Batch, event: InputRequested | InputSettled) -> None:
        """Code waits for an answer, or no longer."""
        match event:
            case InputRequested(question):
                self._begin(batch, question)
            case InputSettled():
                self._settled(batch, event)

    def _begin(self, batch: Batch, question: Question) -> None:
        self._become(question)
        data = {
            "number": question.number,
            "prompt": question.prompt,
            "password": question.is_password,
            "expires_at": question.expires_at,
        }
        self._session.note(
            batch, "notebook.input.requested", data, execution=self._record(question.execution_id)
        )
        self._decline_unattended(question)

    def _settled(self, batch: Batch, settled: InputSettled) -> None:
        if self._current is not None and self._current.number == settled.number:
            self._become(None)
        data = {"number": settled.number, "answered": settled.answered, "reason": settled.reason}
        self._session.note(
            batch, "notebook.input.settled", data, execution=self._record(settled.execution_id)
        )

    def found(self, question: Question | None) -> None:
        """Take the question that a host reports when it is attached again."""
        if self._current != question:
            self._become(question)

    def _become(self, question: Question | None) -> None:
        self._current = question
        self._changed.set()
        self._changed = anyio.Event()

    def _record(self, execution_id: str) -> ExecutionRecord | None:
        execution = self._session.runs.find(execution_id)
        return execution.record if execution is not None else None

    def _decline_unattended(self, question: Question) -> None:
        passwords = self._expected.get(question.execution_id)
        if self._attending or passwords or (passwords is not None and not question.is_password):
            return
        reason = NOBODY if passwords is None else NO_PASSWORDS
        self._session.services.in_background(partial(self.decline, question, reason))
