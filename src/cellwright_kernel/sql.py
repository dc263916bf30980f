"""SQL cells: one DuckDB in memory per session, to which the session's frames are tables by name.

A SQL cell runs as a Python cell does, in the same thread: ``run`` is what IPython runs in its place (see ``kernel``), so that
history, display, interrupts and limits are those of any cell. DuckDB is imported with the first of them.

DuckDB reads and writes files as it likes: what it may touch is the sandbox's to say, as for Python itself. That it
looks for variables by itself is switched off: it would look into the frames of this module, too, and could not see
what other languages have put. Names are found in the text (``sqltext``), lent for one statement and taken back.

Between two cells DuckDB has one thread, the caller's, so that the kernel can be forked; its tables are then part of
a checkpoint as variables are. For the same reason nothing is spilled to files.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import resource
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from typing import Any

from cellwright_kernel import _sqlframes, _values, sqltext
from cellwright_kernel.digests import type_name

__all__ = ["Database", "database_of"]
MOST_THREADS = 8

MEMORY_SHARE = 0.7

EXACT_FLOAT = 2**53

# Its tasks for files have threads of their own from DuckDB 2 on; without them the one that asks does the work.
NEWER_SETTINGS = {"async_threads": 0}

SETTINGS = {
    "threads": 1,
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "errors_as_json": "true",
    "temp_directory": "",
}

CATALOGUE = """
    SELECT table_name FROM duckdb_tables() WHERE database_name IN (current_database(), 'temp')
    UNION SELECT view_name FROM duckdb_views()
    WHERE NOT internal AND database_name IN (current_database(), 'temp')
"""

MISSING = (
    "SQL cells need DuckDB, which this kernel's Python does not have: "
    """`pip install 'cellwright[sql]'`, or package_install(["duckdb"])"""
)


def run(cell: str) -> Any:
    """Run a SQL cell in this kernel's session; the last result."""
    try:
        return _run(cell)
    except KeyboardInterrupt:
        told = "the query was interrupted"
        raise rendered_as(KeyboardInterrupt(told), told) from None


def _run(cell: str) -> Any:
    shell = _shell()
    noted = shell.interrupts.noted
    try:
        if (connection := sqltext.connection_name(cell)) is not None:
            return _run_elsewhere(shell.user_ns, connection, cell)
        return database_of(shell).run(cell)
    except Exception as error:  # noqa: BLE001  # boundary: an error of the user's SQL is shown without our frames
        # DuckDB swallows the exception that the signal's handler raises, and ends the query with one of its own.
        if shell.interrupts.noted != noted or type(error).__name__ == "InterruptException":
            raise KeyboardInterrupt from None
        raise rendered_as(error, str(error)) from None


def _run_elsewhere(namespace: dict[str, Any], connection: str, cell: str) -> Any:
    """Have a named connection's server run a cell, whole; its rows as a frame, or a line about what changed."""
    from cellwright_kernel._connections import connect

    name = sqltext.result_name(cell)
    wanted = {token.text[1:] for token in sqltext.tokens_of(cell) if token.kind == "parameter"}
    parameters = {one: _plain(namespace[one]) for one in wanted if one in namespace}
    found = connect(connection).query(cell, parameters)
    if isinstance(found, dict):
        sys.stdout.write(f"{found['status'] or _rows_changed(found['changed'])}\n")
        found = None
    if name is not None:
        if found is None:
            raise ValueError(f"`-- result: {name}`: no statement of this cell has rows; it did run")
        namespace[name] = found
    return found


def _rows_changed(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'} changed"


def database_of(shell: Any) -> Database:
    """The session's database, made on first use.

    Raises:
        ModuleNotFoundError: DuckDB is not installed.
    """
    if shell.database is None:
        shell.database = Database(shell.user_ns)
    database: Database = shell.database
    return database


def _shell() -> Any:
    from IPython.core.getipython import get_ipython  # known in a kernel, and slow elsewhere

    return get_ipython()


class Database:
    """DuckDB in memory, with a session's variables and values beside its own tables."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._duckdb = _load_duckdb()
        self._namespace = namespace
        self._threads = min(MOST_THREADS, len(os.sched_getaffinity(0)))
        self._lent: set[str] = set()
        self._in_views: dict[str, None] = {}
        """Names that a view or a macro reads: whoever reads that needs them as well."""
        self._refused: dict[str, str] = {}
        """Variables that DuckDB could not be given, and why."""
        self._connect()

    def _connect(self) -> None:
        self._connection = _connect(self._duckdb)
        # It would be a widget, and swallows interrupts. Where there are no widgets it is off, and cannot be set.
        with contextlib.suppress(self._duckdb.InvalidInputException):
            self._connection.execute("SET enable_progress_bar = false")
        # Settings must be changeable while a transaction of the user's lies broken.
        self._side = self._connection.cursor()

    def run(self, cell: str) -> Any:
        """Run a cell's statements; the rows of the last that has any, as a frame.

        Raises:
            Exception: of a type of DuckDB's, with a message that shows the place in the cell.
        """
        name = sqltext.result_name(cell)
        frame: Any = None
        self._refused = {}
        failed: Exception | None = None
        try:
            statements = self._connection.extract_statements(cell)
            with self._working():
                for statement in statements:
                    result = self._execute(statement, cell)
                    frame = frame if result is None else result
        except self._duckdb.Error as error:
            failed = self._told(error, cell)
        if failed is not None:
            # Out here, so that it does not drag DuckDB's own along.
            raise failed
        if name is not None and frame is None:
            raise ValueError(f"`-- result: {name}`: no statement of this cell has rows; it did run")
        if name is not None:
            self._namespace[name] = frame
        return frame

    def interrupt(self) -> None:
        """End the query that runs now, if one does; from another thread."""
        self._connection.interrupt()

    def tables(self) -> list[str]:
        """What can be read by name: the database's own tables, variables, and values of other languages."""
        known = [*self._own_tables(), *_sqlframes.tables_in(self._namespace), *_values.names()]
        return list(dict.fromkeys(known))

    def rows_of(self, query: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """What a query of ours about the catalogue finds; nothing while a transaction lies broken."""
        try:
            found: list[tuple[Any, ...]] = self._connection.execute(query, dict(parameters)).fetchall()
        except self._duckdb.Error:
            return []
        return found

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """With all threads; afterwards with none but this, and no variable is kept alive."""
        self._side.execute(f"SET threads = {self._threads}")
        try:
            yield
        finally:
            self._take_back()
            # The user may have set it, and then means the cells to come.
            with contextlib.suppress(self._duckdb.Error):
                (count,) = self._side.execute("SELECT current_setting('threads')").fetchone()
                self._threads = int(count)
                self._side.execute("SET threads = 1")

    def _execute(self, statement: Any, cell: str) -> Any:
        self._refuse_download(statement.query)
        parameters = self._parameters(statement, cell)
        self._lend(statement)
        self._connection.execute(statement, parameters)
        columns = [column[0] for column in self._connection.description or ()]
        kind = statement.type.name
        if kind == "EXPLAIN":
            self._say("\n".join(str(row[-1]).rstrip() for row in self._connection.fetchall()))
            return None
        if kind == "SELECT" or (
            columns and columns != ["Success"] and not _only_counts(kind, columns, statement)
        ):
            return self._frame()
        row = self._connection.fetchone() if columns == ["Count"] else None
        happened = sqltext.what_happened(kind, statement.query, row[0] if row else None)
        if happened is not None:
            self._say(happened)
        return None

    def _say(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")
        # The next statement may take long.
        sys.stdout.flush()

    def _refuse_download(self, query: str) -> None:
        words = [token for token in sqltext.tokens_of(query) if token.kind != "comment"][:3]
        heads = [word.text.upper() for word in words]
        if "INSTALL" in heads[:2] and (heads[0] in {"INSTALL", "FORCE"}):
            what = words[heads.index("INSTALL") + 1 :]
            if what and what[0].kind != "text":
                raise self._duckdb.PermissionException(missing_extension(what[0].name))

    def _parameters(self, statement: Any, cell: str) -> dict[str, Any] | None:
        found = {}
        for name in statement.named_parameters:
            if name not in self._namespace:
                token = next((one for one in sqltext.tokens_of(cell) if one.text == f"${name}"), None)
                place = len(cell[: token.start].encode()) if token else None
                wrong = (
                    "parameters take variables by name" if name.isdigit() else f"there is no variable {name}"
                )
                fault = Fault(f"${name}: {wrong}", place, len(name.encode()) + 1)
                raise NameError(in_words(fault, cell))
            found[name] = _plain(self._namespace[name])
        return found or None

    def _lend(self, statement: Any) -> None:
        """Let DuckDB know the variables and values that a statement names, unless it has such tables itself."""
        named = sqltext.names_in(statement.query)
        variables = _sqlframes.index_of(self._namespace)
        put = _sqlframes.index_of(_values.names())
        wanted = {
            name: value
            for name in (*named, *self._in_views)
            if (value := self._found(name, variables, put)) is not None
        }
        if statement.type.name == "CREATE" and {"VIEW", "MACRO", "FUNCTION"} & {
            name.upper() for name in named
        }:
            self._in_views.update(dict.fromkeys(name for name in named if name in wanted))
        own = {table.casefold() for table in self._own_tables()} if wanted else set()
        for name, value in wanted.items():
            if name.casefold() in own or name in self._lent:
                continue
            try:
                self._connection.register(name, _sqlframes.to_duckdb(value))
            except Exception as error:  # noqa: BLE001  # boundary: perhaps the name means something else here
                self._refused[name] = f"{type(error).__name__}: {error}"
            else:
                self._lent.add(name)

    def _found(self, name: str, variables: dict[str, list[str]], put: dict[str, list[str]]) -> Any:
        """The table that a name means outside of the database; None where it means none."""
        variable = _sqlframes.find(name, variables)
        if variable is not None and _sqlframes.is_table(self._namespace[variable]):
            return self._namespace[variable]
        value_name = _sqlframes.find(name, put)
        if value_name is None:
            return None
        with contextlib.suppress(ValueError, LookupError, OSError):
            value = _values.get(value_name)
            return value if _sqlframes.is_table(value) else None
        return None

    def _take_back(self) -> None:
        for name in list(self._lent):
            # Where a transaction lies broken it stays until another cell.
            with contextlib.suppress(self._duckdb.Error):
                self._connection.unregister(name)
                self._lent.discard(name)

    def _own_tables(self) -> list[str]:
        return [name for (name,) in self.rows_of(CATALOGUE, {}) if name not in self._lent]

    def _frame(self) -> Any:
        """The rows that wait, as a frame of the library that is there."""
        library = _sqlframes.library_for_frames()
        if library == "pandas":
            return _whole_numbers(self._connection.df(), self._connection.description)
        if library is not None and _sqlframes.load("pyarrow") is not None:
            table = _arrow_table(self._connection)
            return _sqlframes.load("polars").from_arrow(table) if library == "polars" else table
        columns = [column[0] for column in self._connection.description]
        rows = self._connection.fetchall()
        if library == "polars":
            return _sqlframes.load("polars").DataFrame(rows, schema=columns, orient="row")
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def _told(self, error: Exception, cell: str) -> Exception:
        """The same error with a message for whoever wrote the cell."""
        kind_of_error: type[Exception] = type(error)
        fault = fault_of(str(error))
        if isinstance(error, self._duckdb.FatalException):
            self._connect()
            message = (
                f"{fault.message}\nThe database ended with its tables; the next SQL cell has an empty one"
            )
            return kind_of_error(message)
        variable = _sqlframes.find(fault.name, _sqlframes.index_of(self._namespace))
        kind = None if variable is None else type_name(type(self._namespace[variable]))
        reason = self._refused.get(fault.name)
        fault = advised(fault, self.tables(), f"{kind} ({reason})" if reason else kind)
        return kind_of_error(in_words(located(fault), cell))


def _load_duckdb() -> Any:
    try:
        return importlib.import_module("duckdb")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(MISSING, name=error.name) from None


def _connect(duckdb: Any) -> Any:
    limit = min(
        resource.getrlimit(which)[0] % (1 << 64) for which in (resource.RLIMIT_DATA, resource.RLIMIT_AS)
    )
    memory = {"memory_limit": f"{int(limit * MEMORY_SHARE)}B"} if limit < sys.maxsize else {}
    try:
        return duckdb.connect(":memory:", config={**SETTINGS, **memory, **NEWER_SETTINGS})
    except duckdb.Error:
        return duckdb.connect(":memory:", config={**SETTINGS, **memory})


def _only_counts(kind: str, columns: list[str], statement: Any) -> bool:
    """Whether a statement's one number is how many rows it changed."""
    if columns != ["Count"]:
        return False
    returns = "RETURNING" in {name.upper() for name in sqltext.names_in(statement.query)}
    return kind in {"INSERT", "UPDATE", "DELETE", "MERGE_INTO", "COPY", "CREATE"} and not returns


def _plain(value: Any) -> Any:
    """A parameter's value in a type that DuckDB takes."""
    if type(value) in (set, frozenset, range):
        return list(value)
    module = type(value).__module__.partition(".")[0]
    if module == "numpy" and hasattr(value, "item") and not getattr(value, "ndim", 0):
        return value.item()
    if module in {"pandas", "polars"} and hasattr(value, "to_list"):
        return value.to_list()
    return value


def _arrow_table(connection: Any) -> Any:
    # DuckDB 2 calls it by another name, and advises a way that runs queries only, and only later.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fetch = getattr(connection, "to_arrow_table", None) or connection.fetch_arrow_table
        return fetch()


def _whole_numbers(frame: Any, description: Any) -> Any:
    """With sums of whole numbers as whole numbers: DuckDB's 128 bits would be floats in pandas."""
    for place, column in enumerate(description):
        if str(column[1]) == "HUGEINT" and len(frame):
            held = frame.iloc[:, place]
            if held.notna().all() and held.abs().max() < EXACT_FLOAT:
                frame.isetitem(place, held.astype("int64"))
    return frame


# Where a file lies that a query did not find: beside, above or below the working directory, or under a
# similar name.

_NOT_FOUND = re.compile(r'No files found that match the pattern "(?P<path>[^"]+)"')

_LEVELS = 3

_MOST_ENTRIES = 2_000

_MOST_TOLD = 3

_GLOBBING = frozenset("*?[")


def located(fault: Fault) -> Fault:
    """The same with where the file was looked for, and the path of one of that name or a similar one."""
    found = _NOT_FOUND.search(fault.message)
    if found is None:
        return fault
    path = found["path"]
    told = f"{fault.message}\nPaths begin at the working directory, {os.getcwd()}."  # a text
    meant = [] if _GLOBBING & set(path) else _meant(path)
    if meant:
        told += f" Did you mean {' or '.join(repr(one) for one in meant)}?"
    return replace(fault, message=told)


def _meant(path: str) -> list[str]:
    folder, name = os.path.split(path)
    above = (os.path.join(*[os.pardir] * level, name) for level in range(1, _LEVELS + 1))
    below = (f"{other}/{name}" for other in _names(os.curdir))
    same = [one for one in (name, *above, *below) if one != path and os.path.isfile(one)]
    similar = get_close_matches(name, _names(folder or os.curdir), _MOST_TOLD)
    return same[:_MOST_TOLD] or [os.path.join(folder, one) for one in similar]


def _names(folder: str) -> list[str]:
    return sorted(islice(_entries(folder), _MOST_ENTRIES))


def _entries(folder: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name


# What DuckDB says of an error, as the cell's author can use it: the message, and the line with a caret
# below.

EXCERPT = 120
"""How many characters of a long line are shown."""

MOST_CANDIDATES = 3

# DuckDB's own catalogue, which nobody means who misspells a table.
_INTERNAL = re.compile(r"(pg_|sqlite_|duckdb_|pragma_|information_schema)")

_MEANT = re.compile(r"\n?Did you mean (?P<names>[^\n]*)")

_UNCHANGEABLE = re.compile(r"is not an? table|Can only (?:update|delete from|merge into) base table")

_EXTENSION = re.compile(r"(?P<name>\w+)\.duckdb_extension")


@dataclass(frozen=True, slots=True)
class Fault:
    """What an exception of DuckDB's says."""

    message: str
    start: int | None = None
    """Where in the cell, in bytes of UTF-8."""
    length: int = 1
    subtype: str = ""
    thing: str = ""
    """What kind of thing it is about: a table, a function."""
    name: str = ""


def fault_of(text: str) -> Fault:
    """Read an exception's text; one that is no JSON is a message without a place."""
    about: object = None
    with contextlib.suppress(ValueError):
        about = json.loads(text[max(text.find("{"), 0) :])
    if not isinstance(about, dict) or "exception_message" not in about:
        return Fault(text)
    start, length = _fault_span(about)
    return Fault(
        message=str(about["exception_message"]).strip(),
        start=start,
        length=length,
        subtype=str(about.get("error_subtype", "")),
        thing=str(about.get("type", "")),
        name=str(about.get("name", "")),
    )


def _fault_span(about: dict[str, object]) -> tuple[int | None, int]:
    # Before DuckDB 2 there is a position without a length.
    with contextlib.suppress(KeyError, ValueError, TypeError):
        start, length = json.loads(str(about["location"]))
        return int(start), max(int(length), 1)
    with contextlib.suppress(KeyError, ValueError):
        return int(str(about["position"])), 1
    return None, 1


def advised(fault: Fault, tables: Iterable[str], type_of_variable: str | None) -> Fault:
    """The same with what to do about it: tables that were perhaps meant, or why an extension is not there.

    ``type_of_variable`` is that of a Python variable of the missing table's name, if there is one.
    """
    if fault.subtype == "MISSING_ENTRY" and fault.thing == "Table":
        return _missing_table(fault, list(tables), type_of_variable)
    if _UNCHANGEABLE.search(fault.message) or (
        fault.thing == "View" and fault.subtype == "ENTRY_ALREADY_EXISTS"
    ):
        note = "A variable can be read, not changed: `CREATE TABLE t AS FROM variable` makes a table of it"
        return (
            fault
            if type_of_variable is None and fault.name
            else replace(fault, message=f"{fault.message}\n{note}")
        )
    extension = _EXTENSION.search(fault.message)
    return fault if extension is None else replace(fault, message=missing_extension(extension["name"]))


def _missing_table(fault: Fault, tables: list[str], type_of_variable: str | None) -> Fault:
    base = _MEANT.sub("", fault.message)
    if type_of_variable is not None:
        kinds = "frames, Arrow tables, DuckDB relations, lists of records and record arrays are"
        return replace(
            fault, message=f"{base}\nThe variable {fault.name} is of type {type_of_variable}: {kinds} tables"
        )
    folded = {table.casefold(): table for table in tables}
    close = [folded[one] for one in get_close_matches(fault.name.casefold(), folded, MOST_CANDIDATES)]
    if close:
        return replace(fault, message=f"{base}\nDid you mean {' or '.join(close)}?")
    said = _MEANT.search(fault.message)
    return fault if said and not _INTERNAL.search(said["names"]) else replace(fault, message=base)


def missing_extension(name: str) -> str:
    """Why an extension is not there, and what to do without it."""
    told = f"DuckDB's extension {name} is not installed here, and nothing is downloaded."
    if name.startswith("sqlite"):
        told += (
            " Read the database in a Python cell, `df = pandas.read_sql_query(query, sqlite3.connect(path))`, and "
            "use the frame by its name. Or"
        )
    elif name == "httpfs":
        told += " Fetch the file in a Python cell, where the network's policy allows it, and read it by its path. Or"
    return f"{told} install it from a file that you have: `INSTALL '/path/to/{name}.duckdb_extension'`"


def in_words(fault: Fault, cell: str) -> str:
    """The message, the line that it is about, and a caret."""
    if fault.start is None:
        return fault.message
    source = cell.encode("utf-8", "replace")
    if fault.start > len(source):
        return fault.message
    before = source[: fault.start].decode("utf-8", "replace")
    marked = source[fault.start : fault.start + fault.length].decode("utf-8", "replace").partition("\n")[0]
    number = before.count("\n") + 1
    line = cell.split("\n")[number - 1].rstrip("\r")
    column = len(before) - (before.rfind("\n") + 1)
    first = max(0, column - EXCERPT // 2) if len(line) > EXCERPT else 0
    shown = line[first : first + EXCERPT]
    head = f"line {number}: {'…' if first else ''}"
    blank = "".join("\t" if letter == "\t" else " " * _width(letter) for letter in shown[: column - first])
    carets = "^" * max(1, sum(map(_width, marked[: EXCERPT - (column - first)])))
    tail = "…" if len(line) > first + EXCERPT else ""
    return f"{fault.message}\n\n{head}{shown}{tail}\n{' ' * len(head)}{blank}{carets}"


def _width(letter: str) -> int:
    """How many columns a letter takes up."""
    if unicodedata.combining(letter) or unicodedata.category(letter) in {"Cf", "Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def rendered_as(error: BaseException, text: str) -> BaseException:
    """Let IPython show this text in place of a Python traceback, which would lead through our own code only."""
    lines = f"{type(error).__name__}: {text}" if text else type(error).__name__
    with contextlib.suppress(AttributeError, TypeError):
        error._render_traceback_ = lambda: lines.split("\n")  # type: ignore[attr-defined]  # IPython asks for it
    return error
