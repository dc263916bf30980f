"""A kernel tells of its last error what it knows, runs none of the user's code for it, and stays small."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cellwright.engine import Diagnosis
from cellwright.engine.introspection import DIAGNOSE_REQUEST, Signature, Span, diagnosis_of
from cellwright.kernels._forkserver import ForkServer
from tests.matrix import first_of
from tests.waiting import LIMIT_S

pytestmark = pytest.mark.anyio

Fail = Callable[..., Awaitable[Diagnosis]]


async def ask(kernel: Any) -> Diagnosis | None:
    return diagnosis_of(await kernel.client.request(DIAGNOSE_REQUEST, {}, timeout_s=LIMIT_S))


async def failed(kernel: Any, run_cell: Any, *cells: str) -> Diagnosis:
    """Run cells, of which the last must fail, and ask."""
    for cell in cells:
        ran = await run_cell(kernel, cell)
    assert ran.reply["status"] == "error"
    found = await ask(kernel)
    assert found is not None
    return found


@pytest.fixture
def fail(kernel: Any, run_cell: Any) -> Fail:
    return partial(failed, kernel, run_cell)


@pytest.fixture(scope="module")
async def looked_at(server: ForkServer, launch_on: Any) -> AsyncIterator[Any]:
    """A kernel for tests that make all they look at: the libraries are imported into it once."""
    kernel = await launch_on(server)
    yield kernel
    await kernel.stop(grace_s=0)


def marked(cell: str, span: Span | None) -> str | None:
    """The part of a cell that a span means."""
    if span is None:
        return None
    lines = [line.encode() for line in cell.split("\n")[span.line - 1 : span.end_line]]
    lines[-1] = lines[-1][: span.end_column]
    lines[0] = lines[0][span.column :]
    return b"\n".join(lines).decode()


# What was raised -----------------------------------------------------------------------------------------------------


async def test_an_error_is_told_with_its_type_its_words_and_its_details(fail: Fail) -> None:
    found = await fail("d = {'a': 1}", "d['b']")
    assert (found.raised.type, found.raised.message, found.raised.details) == (
        "KeyError",
        "'b'",
        {"key": "b"},
    )
    assert found.raised.bases == ("KeyError", "LookupError", "Exception", "BaseException")
    assert found.roots == (found.raised,)
    assert found.chain == ()
    assert found.raised.library is None
    missing = await fail("from pathlib import Path\nPath('no/file.csv').read_text()")
    assert missing.raised.details == {"errno": 2, "filename": "no/file.csv"}
    named = await fail("class Ours(KeyError): pass\nraise Ours('x')")
    assert named.raised.bases[:2] == ("__main__.Ours", "KeyError")
    nothing = await fail("import sys; sys.exit(4)")
    assert (nothing.raised.type, nothing.raised.details) == ("SystemExit", {"code": 4})


async def test_an_error_inside_a_library_is_found_in_the_line_of_the_cell(fail: Fail) -> None:
    cell = "import pandas as pd\n\nfirst = pd.read_csv('sales.csv').dropna()"
    found = await fail(cell)
    assert found.raised.library == "pandas"
    assert marked(cell, found.raised.span) == "pd.read_csv('sales.csv')"


async def test_the_root_is_the_end_of_explicit_causes_and_contexts_are_told_apart(fail: Fail) -> None:
    cell = (
        "def look(d):\n    return d['größe'] / 0\n"
        "try:\n    try:\n        1 + ''\n    except TypeError:\n        look({'größe': 1})\n"
        "except ZeroDivisionError as error:\n    raise ValueError('bad') from error"
    )
    found = await fail(cell)
    (root,) = found.roots
    assert (found.raised.type, root.type) == ("ValueError", "ZeroDivisionError")
    assert [each.type for each in found.chain] == ["TypeError"]
    assert marked(cell, root.span) == "d['größe'] / 0"
    assert marked(cell, found.raised.span) == "raise ValueError('bad') from error"
    assert found.values == {"d": "{'größe': 1}"}


async def test_a_cause_within_a_library_is_about_what_the_cell_asked_the_library_for(fail: Fail) -> None:
    cell = (
        "import pandas as pd\ndf = pd.DataFrame({'A': [1]})\n"
        "try:\n    df['a']\nexcept KeyError as error:\n    raise RuntimeError('no') from error"
    )
    found = await fail(cell)
    assert marked(cell, found.roots[0].span) == "df['a']"
    assert found.subject is not None
    assert (found.subject.expression, found.subject.columns) == ("df", ("A",))


async def test_each_leaf_of_a_group_is_a_root(fail: Fail) -> None:
    found = await fail(
        "cause = PermissionError(13, 'no', 'f')\n"
        "inner = ValueError('inner'); inner.__cause__ = cause\n"
        "raise ExceptionGroup('all', [KeyError('k'), ExceptionGroup('some', [inner])])"
    )
    assert found.raised.type == "ExceptionGroup"
    assert [root.type for root in found.roots] == ["KeyError", "PermissionError"]
    assert all(root.span is not None for root in found.roots)


async def test_a_circle_of_causes_has_an_end(fail: Fail) -> None:
    found = await fail(
        "a, b = ValueError('a'), ValueError('b')\na.__cause__, b.__cause__ = b, a\na.__context__ = b\nraise a"
    )
    assert [root.message for root in found.roots] == ["b"]


# Only the last execution ---------------------------------------------------------------------------------------------


async def test_nothing_is_told_of_an_error_before_one_that_went_well(
    kernel: Any, run_cell: Any, fail: Fail
) -> None:
    assert await ask(kernel) is None
    await fail("1 / 0")
    await run_cell(kernel, "'well'")
    assert await ask(kernel) is None
    await fail("1 / 0")
    await run_cell(kernel, "")
    assert await ask(kernel) is None


async def test_a_run_without_a_number_is_the_last_one_too(kernel: Any, run_cell: Any, fail: Fail) -> None:
    await fail("1 / 0")
    await run_cell(kernel, "assert 1 == 1", store_history=False)
    assert await ask(kernel) is None
    await run_cell(kernel, "assert 1 == 2, 'no'", store_history=False)
    found = await ask(kernel)
    assert found is not None
    assert (found.raised.type, found.raised.message) == ("AssertionError", "no")


async def test_code_that_runs_cells_itself_is_what_counts(kernel: Any, run_cell: Any) -> None:
    await run_cell(kernel, "get_ipython().run_cell('1 / 0'); 'well'")
    assert await ask(kernel) is None
    await run_cell(kernel, "get_ipython().run_cell('1 / 0'); {}['x']")
    found = await ask(kernel)
    assert found is not None
    assert found.raised.type == "KeyError"


async def test_an_error_while_a_value_is_shown_is_told(fail: Fail) -> None:
    found = await fail("class Shy:\n    def __repr__(self): raise RuntimeError('shy')\nShy()")
    assert (found.raised.type, found.raised.message) == ("RuntimeError", "shy")


async def test_asking_leaves_no_trace(kernel: Any, run_cell: Any, fail: Fail) -> None:
    await fail("41 + 1", "nowhere")
    ran = await run_cell(kernel, "_, [name for name in globals() if not name.startswith('_')]")
    assert ran.result == "(42, ['In', 'Out', 'get_ipython', 'exit', 'quit'])"
    assert ran.reply["execution_count"] == 3


# Where in the cell ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "part"),
    first_of(
        [
            ("x = 1\nprint('ä', nowhere, 2)", "nowhere"),
            ("\n\n  x = 1\n  nowhere", "nowhere"),
            (">>> x = 1\n>>> nowhere", "nowhere"),
            ("%precision 3\nif True:\n    x = 2\n    nowhere", "nowhere"),
            ("x = %pwd\nx = 2\nnowhere + x", "nowhere"),
            ("def f():\n    return [1][5]\nf()", "[1][5]"),
            ("[nowhere for _ in range(3)]", "nowhere"),
            ("import asyncio\nawait asyncio.sleep(0)\nnowhere", "nowhere"),
            ("('text'\n .upper()\n .lowwer())", "lowwer"),
        ],
        5,
    ),
)
async def test_a_span_is_the_innermost_place_in_what_was_written(fail: Fail, cell: str, part: str) -> None:
    assert marked(cell, (await fail(cell)).raised.span) == part


async def test_a_function_of_an_earlier_cell_is_not_this_cell(fail: Fail) -> None:
    cell = "y = 2\ntwice(None) + y"
    found = await fail("def twice(x):\n\n\n    return x * 2 + 'a'", cell)
    assert marked(cell, found.raised.span) == "twice(None)"


@pytest.mark.parametrize(
    ("cell", "line", "rest"),
    first_of(
        [
            ("x = 1\nif x\n    pass", 2, ""),
            ("\n\n  y = 1\n  ä = (1 +* 2)", 4, "* 2)"),
            ("def f():\nreturn 1", 2, "return 1"),
            ("print 'x'", 1, "print 'x'"),
            ("return 5", 1, "return 5"),
        ],
        2,
    ),
)
async def test_code_that_cannot_be_parsed_is_told_with_its_place(
    fail: Fail, cell: str, line: int, rest: str
) -> None:
    found = await fail("1 / 0", cell)
    assert "SyntaxError" in found.raised.bases
    span = found.raised.span
    assert span is not None
    assert (span.line, found.raised.details["lineno"]) == (line, line)
    assert cell.split("\n")[line - 1].encode()[span.column :].decode() == rest
    assert found.raised.details["msg"]
    assert "filename" not in found.raised.details


async def test_code_that_other_code_could_not_parse_is_not_the_cells(fail: Fail) -> None:
    cell = "x = 1\neval('1 +')"
    found = await fail(cell)
    assert found.raised.details["filename"] == "<string>"
    assert marked(cell, found.raised.span) == "eval('1 +')"


# What it was applied to ----------------------------------------------------------------------------------------------

PREPARED = """
import numpy as np, pandas as pd, polars as pl
frame = pd.DataFrame({"Units": [1, 2], " price": [3.0, 4.0], 7: [5, 6]})
other = pl.DataFrame({"Name": ["a"], "Age": [3]})
class Holder: pass
holder = Holder(); holder.items = [1, 2, 3]; holder.frame = frame
nested = {"a": {"b": [1, 2]}, 5: None, 2.5: None}
groups = frame.groupby("Units")
array = np.zeros((3, 4))
"""


@pytest.mark.parametrize(
    ("cell", "expected"),
    first_of(
        [
            (
                "frame['units']",
                {"expression": "frame", "columns": ("Units", " price", 7), "shape": (2, 3), "length": 2},
            ),
            ("frame.iloc[99]", {"expression": "frame", "length": 2}),
            (
                "frame.groupby('Units')['price'].sum()",
                {"expression": "frame", "columns": ("Units", " price", 7)},
            ),
            ("frame.units", {"expression": "frame", "columns": ("Units", " price", 7)}),
            ("frame['Units']['x']", None),
            ("other.select('name')", {"expression": "other", "columns": ("Name", "Age")}),
            ("holder.frame['x']", {"expression": "holder.frame", "columns": ("Units", " price", 7)}),
            ("nested['a']['c']", {"expression": "nested['a']", "keys": ("b",), "length": 1}),
            ("array[5, 0]", {"expression": "array", "shape": (3, 4), "length": 3}),
            (
                "def look(rows):\n    return rows[3]\nlook((1, 2))",
                {"expression": "rows", "type": "tuple", "length": 2},
            ),
            ("np.flaot", {"expression": "np", "type": "module"}),
            ("1 + 'a'", None),
            ("frame.loc[:, 'units']", {"expression": "frame", "columns": ("Units", " price", 7)}),
            (
                "frame.sort_values('price').head(2)",
                {"expression": "frame", "columns": ("Units", " price", 7)},
            ),
            ("frame[frame.Units > 1]['price']", {"expression": "frame", "columns": ("Units", " price", 7)}),
            ("groups['price']", {"expression": "groups", "columns": ("Units", " price", 7)}),
            (
                "pd.pivot_table(frame, index='unit')",
                {"expression": "frame", "columns": ("Units", " price", 7)},
            ),
            ("other['name']", {"expression": "other", "columns": ("Name", "Age"), "shape": (1, 2)}),
            ("holder.items[7]", {"expression": "holder.items", "type": "list", "length": 3}),
            ("nested['x']", {"expression": "nested", "keys": ("a", 5), "length": 3}),
            ("nested['a']['b'][2]", {"expression": "nested['a']['b']", "length": 2}),
            ("'text'.lowwer()", {"expression": "'text'", "type": "str", "length": 4}),
        ],
        12,
    ),
)
async def test_the_subject_is_what_the_failing_expression_was_applied_to(
    looked_at: Any, run_cell: Any, cell: str, expected: dict[str, Any] | None
) -> None:
    subject = (await failed(looked_at, run_cell, PREPARED, cell)).subject
    if expected is None:
        assert subject is None
    else:
        assert subject is not None
        assert {name: getattr(subject, name) for name in expected} == expected


async def test_attributes_are_those_of_the_object_and_its_class(fail: Fail) -> None:
    found = await fail(
        "class Base:\n    def shared(self): pass\nclass Shape(Base):\n    def area(self): pass\n"
        "shape = Shape(); shape.width = 3",
        "shape.aera()",
    )
    assert found.subject is not None
    assert set(found.subject.attributes) >= {"width", "area", "shared"}
    assert found.raised.details == {"name": "aera", "obj_type": "Shape"}


# What lies around ----------------------------------------------------------------------------------------------------


async def test_names_modules_and_members_are_what_the_code_could_use(fail: Fail) -> None:
    found = await fail("total = 1\ndef outer(first):\n    second = 2\n    return frist + second", "outer(3)")
    assert "total" in found.names
    assert "first" not in found.names, "that function is no part of this cell"
    assert "In" not in found.names
    found = await fail("def own(first):\n    second = 2\n    return frist\nown(3)")
    assert {"first", "second", "own", "total"} <= set(found.names)
    assert {"json", "pandas", "sys"} <= set(found.modules)
    assert not [name for name in found.modules if name.startswith("_")]
    found = await fail("from collections import OrderedDictt")
    assert {"OrderedDict", "abc"} <= set(found.members["collections"])
    found = await fail("import os.paht")
    assert "path" in found.members["os"]
    found = await fail("import numpy as np\nnp.linalg.invv([[1]])")
    assert "inv" in found.members["np.linalg"]
    assert found.members["np.linalg"] == found.members["numpy.linalg"]


LIBRARY = """
import sys, types
class Box:
    def put(self, what, /, where, *, when=0, **more): pass
    @classmethod
    def made(cls, size): return cls()
def opened(): return Box()
pretend, style = types.ModuleType("pretend"), types.ModuleType("matplotlib.style")
pretend.__version__, pretend.Box, pretend.opened = "1.2", Box, opened
style.available = ["plain", "seaborn-v0_8"]
lazy, written = types.ModuleType("lazy"), types.ModuleType("lazy._version")
written.version = "3.4"
sys.modules |= {"pretend": pretend, "matplotlib.style": style, "lazy": lazy, "lazy._version": written}
box = Box()
"""


async def test_what_the_installed_libraries_take_is_told_without_a_call_of_them(fail: Fail) -> None:
    found = await fail(LIBRARY, "box.put(1, 2, 3)")
    assert (found.versions["pretend"], found.versions["lazy"]) == ("1.2", "3.4")
    put = Signature(("what", "where"), ("where", "when"), any_keyword=True)
    assert found.signatures["box.put"] == put
    # What the call is made of is only known by running it: the message names the class.
    found = await fail("pretend.opened().put(1, 2, 3)")
    assert found.signatures == {"pretend.opened().put": put, "pretend.opened": Signature()}
    found = await fail("pretend.Box.made(1, 2)")
    assert found.signatures == {"pretend.Box.made": Signature(("size",), ("size",))}
    assert not found.choices
    found = await fail("raise OSError(\"'seaborn' is not a valid package style\")")
    assert found.choices == {"matplotlib.style": ("plain", "seaborn-v0_8")}


async def test_files_are_those_below_the_directory_without_hidden_ones_and_links(
    server: ForkServer, launch_on: Any, run_cell: Any, tmp_path: Path
) -> None:
    for name in (
        "b.csv",
        "data/raw/a.csv",
        ".git/config",
        ".hidden",
        "__pycache__/x.pyc",
        "node_modules/m/i.js",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "up").symlink_to(tmp_path.parent)
    (tmp_path / "1/2/3/4/5/6/7").mkdir(parents=True)
    os.mkdir(os.fsencode(tmp_path) + b"/\xff")  # no text
    kernel = await launch_on(server, cwd=tmp_path)
    try:
        await run_cell(kernel, "1 / 0")
        found = await ask(kernel)
        assert found is not None
        assert found.files[:5] == ("1/", "b.csv", "data/", "up", "1/2/")
        assert "data/raw/a.csv" in found.files
        assert found.files[-1] == "1/2/3/4/5/6/"
        assert found.directory == str(tmp_path)
    finally:
        await kernel.stop(grace_s=0)


async def test_files_that_the_failing_statement_names_are_read_only_where_they_are_plain(
    server: ForkServer, launch_on: Any, run_cell: Any, tmp_path: Path
) -> None:
    (tmp_path / "plain.csv").write_bytes(b"a;b\n" + b"x" * 100_000)
    (tmp_path / "named.csv").write_bytes(b"\xff\xfe")
    (tmp_path / "link.csv").symlink_to(tmp_path / "plain.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/joined.csv").write_bytes(b"joined")
    prepared = (
        "from pathlib import Path\nname, folder = 'named.csv', Path('sub')\ndef look(*paths): return paths[9]"
    )
    cell = (
        "with open('plain.csv') as file:\n"
        "    look('link.csv', 'pipe.csv', 'missing.csv', 'sub', name, folder / 'joined.csv')"
    )
    kernel = await launch_on(server, cwd=tmp_path)
    try:
        await run_cell(kernel, prepared)
        await run_cell(kernel, cell)
        found = await ask(kernel)
        assert found is not None
        heads = {head.path: (head.content, head.size) for head in found.heads}
        assert set(heads) == {"named.csv", "sub/joined.csv", "plain.csv"}
        assert heads["named.csv"] == (b"\xff\xfe", 2)
        assert heads["sub/joined.csv"] == (b"joined", 6)
        await run_cell(kernel, "rows = open('plain.csv').read().split(';')\nrows[9]")
        found = await ask(kernel)
        assert found is not None
        (head,) = found.heads
        assert (head.path, head.size, len(head.content)) == ("plain.csv", 100_004, 64 * 1024)
    finally:
        await kernel.stop(grace_s=0)


# Whatever the code holds ---------------------------------------------------------------------------------------------

# IPython itself asks objects for this and that when it shows an error.
NOTES = """
import sys
asked = []
def note(*args):
    frame = sys._getframe()
    while frame is not None:
        if frame.f_globals["__name__"] == "cellwright_kernel._diagnosis": asked.append(args)
        frame = frame.f_back
    raise RuntimeError("foreign code ran")
"""
HOSTILE = (
    NOTES
    + """
import time
ran = []
def block(*args, **kwargs):
    ran.append(args)
    while True: time.sleep(1000)
class Blocks:
    __repr__ = __str__ = __len__ = __eq__ = __bool__ = __iter__ = __dir__ = __getattr__ = __getattribute__ = block
    __hash__ = object.__hash__
    __class__ = __dict__ = property(block)
    columns = shape = keys = property(block)
class Meta(type):
    __name__ = __module__ = __mro__ = property(block)
    __repr__ = __instancecheck__ = __subclasscheck__ = block
class Sly(metaclass=Meta):
    __getitem__ = None
class BadDict(dict):
    keys = __len__ = __iter__ = __repr__ = block
class Liar:
    columns = property(block)
Liar.__module__, Liar.__qualname__ = "pandas", "DataFrame"
class Prop:
    @property
    def items(self): block()
blocks, sly, bad, liar, prop, held = Blocks(), Sly(), BadDict(a=1), Liar(), Prop(), {"k": Blocks()}
def raises(*given): raise KeyError("k")
class Namespace(dict):
    __getitem__ = dict.__getitem__
    get = keys = __iter__ = items = __len__ = note
class Prepared(type):
    @classmethod
    def __prepare__(cls, *args, **kwargs): return Namespace()
"""
)


@pytest.mark.parametrize(
    ("cell", "expected"),
    first_of(
        [
            ("raises(blocks, sly, bad, liar, prop, held)", None),
            ("sly[1]", "Sly"),
            ("bad['b']", "BadDict"),
            ("bad.nothing", "BadDict"),
            ("liar['x']", "pandas.DataFrame"),
            ("held['k2']", "dict"),
            ("held['k'] + held['j']", "dict"),
            ("class Inside(metaclass=Prepared):\n    raises(nothing if False else 1)", None),
        ],
        4,
    ),
)
async def test_hostile_objects_are_named_and_left_alone(
    kernel: Any, run_cell: Any, cell: str, expected: str | None
) -> None:
    assert (await run_cell(kernel, HOSTILE)).reply["status"] == "ok"
    assert (await run_cell(kernel, cell)).reply["status"] == "error"
    found = await ask(kernel)
    assert found is not None
    assert (found.subject.type if found.subject is not None else None) == expected
    assert (await run_cell(kernel, "ran, len(asked)")).result == "([], 0)"


async def test_an_exception_may_lie_about_itself_in_every_way(kernel: Any, run_cell: Any) -> None:
    cell = (
        NOTES
        + "class Bad(KeyError):\n"
        + "    __cause__ = __context__ = __traceback__ = args = property(note)\n"
        + "    name = errno = filename = property(note)\n"
        + "    def __str__(self): raise SystemExit('no words')\n"
        + "try:\n    raise Bad([1])\nexcept Bad as error:\n    raise ValueError('x' * 10**6) from error"
    )
    await run_cell(kernel, cell)
    found = await ask(kernel)
    assert found is not None
    assert (found.raised.type, found.roots[0].type) == ("ValueError", "Bad")
    assert found.roots[0].message == "<SystemExit while it was asked>"
    assert 1_000 < len(found.raised.message) < 3_000
    assert (await run_cell(kernel, "asked")).result == "[]"


async def test_a_diagnosis_is_small_whatever_there_is(
    server: ForkServer, launch_on: Any, run_cell: Any, tmp_path: Path
) -> None:
    for number in range(3_000):
        (tmp_path / f"{number}{'n' * 100}").touch()
    for name in "abcdef":
        (tmp_path / f"{name}.csv").write_bytes(b"\0" * 200_000)
    kernel = await launch_on(server, cwd=tmp_path)
    try:
        await run_cell(
            kernel,
            "globals().update({f'{\"v\" * 80}{i}': i for i in range(20_000)})\n"
            "many = {f'{\"k\" * 300}{i}': i for i in range(10_000)}\n"
            "parts = [ValueError('\\x00' * 10_000) for _ in range(500)]",
        )
        await run_cell(
            kernel,
            "try:\n    raise ExceptionGroup('g', parts)\n"
            "except ExceptionGroup as error:\n"
            "    many['a.csv', 'b.csv', 'c.csv', 'd.csv', 'e.csv', 'f.csv']",
        )
        reply = await kernel.client.request(DIAGNOSE_REQUEST, {}, timeout_s=LIMIT_S)
        assert len(json.dumps(reply)) < 512 * 1024
        found = diagnosis_of(reply)
        assert found is not None
        assert found.raised.type == "KeyError"
        await run_cell(kernel, "open('a.csv')\nmany['x']")
        found = await ask(kernel)
        assert found is not None
        assert len(found.files) <= 2_000
        assert len(found.names) <= 2_000
        assert found.subject is not None
        assert found.subject.keys is not None
        assert len(found.subject.keys) == 500
    finally:
        await kernel.stop(grace_s=0)
