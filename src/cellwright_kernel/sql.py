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
import os
import resource
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from cellwright_kernel import sqlerrors, sqlfiles, sqlframes, sqltext, values
from cellwright_kernel.digests import type_name

__all__ = ["Database", "database_of", "run"]

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
        raise sqlerrors.rendered_as(KeyboardInterrupt(told), told) from None


def _run(cell: str) -> Any:
    shell = _shell()
    noted = shell.interrupts.noted
    try:
        return database_of(shell).run(cell)
    except Exception as error:  # noqa: BLE001  # boundary: an error of the user's SQL is shown without our frames
        # DuckDB swallows the exception that the signal's handler raises, and ends the query with one of its own.
        if shell.interrupts.noted != noted or type(error).__name__ == "InterruptException":
            raise KeyboardInterrupt from None
        raise sqlerrors.rendered_as(error, str(error)) from None


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
    from IPython.core.getipython import get_ipython  # noqa: PLC0415  # known in a kernel, and slow elsewhere

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
        known = [*self._own_tables(), *sqlframes.tables_in(self._namespace), *values.names()]
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
                raise self._duckdb.PermissionException(sqlerrors.missing_extension(what[0].name))

    def _parameters(self, statement: Any, cell: str) -> dict[str, Any] | None:
        found = {}
        for name in statement.named_parameters:
            if name not in self._namespace:
                token = next((one for one in sqltext.tokens_of(cell) if one.text == f"${name}"), None)
                place = len(cell[: token.start].encode()) if token else None
                wrong = (
                    "parameters take variables by name" if name.isdigit() else f"there is no variable {name}"
                )
                fault = sqlerrors.Fault(f"${name}: {wrong}", place, len(name.encode()) + 1)
                raise NameError(sqlerrors.in_words(fault, cell))
            found[name] = _plain(self._namespace[name])
        return found or None

    def _lend(self, statement: Any) -> None:
        """Let DuckDB know the variables and values that a statement names, unless it has such tables itself."""
        named = sqltext.names_in(statement.query)
        variables = sqlframes.index_of(self._namespace)
        put = sqlframes.index_of(values.names())
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
                self._connection.register(name, sqlframes.to_duckdb(value))
            except Exception as error:  # noqa: BLE001  # boundary: perhaps the name means something else here
                self._refused[name] = f"{type(error).__name__}: {error}"
            else:
                self._lent.add(name)

    def _found(self, name: str, variables: dict[str, list[str]], put: dict[str, list[str]]) -> Any:
        """The table that a name means outside of the database; None where it means none."""
        variable = sqlframes.find(name, variables)
        if variable is not None and sqlframes.is_table(self._namespace[variable]):
            return self._namespace[variable]
        value_name = sqlframes.find(name, put)
        if value_name is None:
            return None
        with contextlib.suppress(ValueError, LookupError, OSError):
            value = values.get(value_name)
            return value if sqlframes.is_table(value) else None
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
        library = sqlframes.library_for_frames()
        if library == "pandas":
            return _whole_numbers(self._connection.df(), self._connection.description)
        if library is not None and sqlframes.load("pyarrow") is not None:
            table = _arrow_table(self._connection)
            return sqlframes.load("polars").from_arrow(table) if library == "polars" else table
        columns = [column[0] for column in self._connection.description]
        rows = self._connection.fetchall()
        if library == "polars":
            return sqlframes.load("polars").DataFrame(rows, schema=columns, orient="row")
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def _told(self, error: Exception, cell: str) -> Exception:
        """The same error with a message for whoever wrote the cell."""
        kind_of_error: type[Exception] = type(error)
        fault = sqlerrors.fault_of(str(error))
        if isinstance(error, self._duckdb.FatalException):
            self._connect()
            message = (
                f"{fault.message}\nThe database ended with its tables; the next SQL cell has an empty one"
            )
            return kind_of_error(message)
        variable = sqlframes.find(fault.name, sqlframes.index_of(self._namespace))
        kind = None if variable is None else type_name(type(self._namespace[variable]))
        reason = self._refused.get(fault.name)
        fault = sqlerrors.advised(fault, self.tables(), f"{kind} ({reason})" if reason else kind)
        return kind_of_error(sqlerrors.in_words(sqlfiles.located(fault), cell))


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
