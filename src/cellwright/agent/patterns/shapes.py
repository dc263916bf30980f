"""What patterns ask a model to think of. Each is the type of one reply."""

from __future__ import annotations

from pydantic import BaseModel, Field

__all__ = ["Choice", "Code", "Draft", "Ideas", "Pick", "Scores", "Step", "Verdict"]


class Step(BaseModel):
    """One step of a plan: one cell."""

    description: str = Field(max_length=300)
    code: str | None = Field(default=None, description="None: it is asked for when its turn comes")
    check: str | None = Field(default=None, description="A Python expression that is true once it is done")


class Draft(BaseModel):
    """A plan: small steps in order, each one cell."""

    steps: list[Step] = Field(min_length=1, max_length=20)


class Code(BaseModel):
    """The source of one cell."""

    code: str


class Verdict(BaseModel):
    """Whether the work answers the question."""

    ok: bool
    issues: list[str] = Field(default_factory=list, description="What is wrong, each with what to do")


class Ideas(BaseModel):
    """Ways to do it that really differ."""

    ideas: list[str] = Field(min_length=1, max_length=8)


class Scores(BaseModel):
    """How promising each way is, from 0 to 1, in their order."""

    scores: list[float]
    why: str = ""


class Pick(BaseModel):
    """Which result is best, counted from 1, and the answer that follows from all of them."""

    best: int = Field(ge=1)
    why: str
    answer: str = Field(description="With numbers only from the results")


class Choice(BaseModel):
    """Which pattern suits the task."""

    pattern: str
    why: str
