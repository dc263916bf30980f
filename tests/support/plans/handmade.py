"""Failures as a kernel would tell them, made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellwright.engine.introspection import Diagnosis, Head, Raised, Span, Subject
from cellwright.plans import Failure, Proposal
from cellwright.plans.failures import Elsewhere, Surroundings

MODULES = (
    "collections",
    "configparser",
    "csv",
    "datetime",
    "functools",
    "glob",
    "io",
    "joblib",
    "json",
    "math",
    "matplotlib",
    "numpy",
    "os",
    "pandas",
    "pathlib",
    "pickle",
    "pprint",
    "queue",
    "random",
    "re",
    "scipy",
    "sklearn",
    "string",
    "time",
    "urllib",
    "xml",
)


def failed(  # noqa: PLR0913  # each is something that a kernel may tell
    source: str,
    error_type: str,
    message: str,
    *,
    at: str | None = None,
    details: Mapping[str, Any] | None = None,
    library: str | None = None,
    subject: Subject | None = None,
    values: Mapping[str, str] | None = None,
    names: tuple[str, ...] = (),
    modules: tuple[str, ...] = MODULES,
    members: Mapping[str, tuple[str, ...]] | None = None,
    files: tuple[str, ...] = (),
    heads: tuple[Head, ...] = (),
    elsewhere: Mapping[str, Elsewhere] | None = None,
    approved: tuple[str, ...] = (),
    has_checkpoint: bool = True,
    raised: Raised | None = None,
    state: str = "error",
) -> Failure:
    """A failure whose root came from where ``at`` stands in the source."""
    root = Raised(error_type, message, details=dict(details or {}), span=span_of(source, at), library=library)
    diagnosis = Diagnosis(
        (root,),
        raised or root,
        subject=subject,
        values=dict(values or {}),
        names=names,
        modules=modules,
        members=dict(members or {}),
        files=files,
        heads=heads,
        directory="/project",
    )
    surroundings = Surroundings(
        elsewhere=dict(elsewhere or {}), approved=frozenset(approved), has_checkpoint=has_checkpoint
    )
    top = raised or root
    return Failure(source, state, top.type, top.message, diagnosis=diagnosis, surroundings=surroundings)


def span_of(source: str, part: str | None) -> Span | None:
    """Where a part of a source stands, as a kernel counts: columns in bytes."""
    if part is None:
        return None
    start = source.index(part)
    (line, column), (last, last_column) = _place(source, start), _place(source, start + len(part))
    return Span(line, column, last, last_column)


def _place(source: str, offset: int) -> tuple[int, int]:
    before = source[:offset]
    return before.count("\n") + 1, len(before[before.rfind("\n") + 1 :].encode())


def undefined(source: str, name: str, **options: Any) -> Failure:
    """A NameError."""
    return failed(source, "NameError", f"name '{name}' is not defined", details={"name": name}, **options)


def frame(*columns: str, expression: str = "df") -> Subject:
    return Subject(
        expression,
        "pandas.DataFrame",
        columns=columns,
        shape=(3, len(columns)),
        length=3,
        attributes=("columns", "groupby", "head", "mean", "shape", "sort_values", "sum", "value_counts"),
    )


def no_key(source: str, key: object, at: str, subject: Subject, **options: Any) -> Failure:
    """A KeyError."""
    return failed(source, "KeyError", repr(key), at=at, details={"key": key}, subject=subject, **options)


def no_file(source: str, path: str, **options: Any) -> Failure:
    """A FileNotFoundError."""
    message = f"[Errno 2] No such file or directory: {path!r}"
    return failed(source, "FileNotFoundError", message, details={"filename": path, "errno": 2}, **options)


# What is said to them ------------------------------------------------------------------------------------------------


def mended(found: Proposal | None) -> str:
    """The source of what is applied."""
    assert found is not None
    assert found.applies, found.reason
    assert found.source is not None
    return found.source


def suggested(found: Proposal | None) -> str:
    """The reason of what is only suggested."""
    assert found is not None
    assert not found.applies, found.source
    return found.reason
