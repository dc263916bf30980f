from __future__ import annotations

import pytest

from cellwright.engine.introspection import Subject
from cellwright.plans import Failure, Proposal
from cellwright.plans.fixers import propose
from tests.support.plans.handmade import failed, frame, mended, suggested

# Attributes --------------------------------------------------------------------------------------------------------


def no_attribute(source: str, at: str, kind: str, **options: object) -> Proposal | None:
    """The last part of ``at`` is missed on what stands before it."""
    holder, _, name = at.rpartition(".")
    message = f"'{kind.rpartition('.')[2]}' object has no attribute '{name}'"
    if kind.startswith("module "):
        message = f"module '{kind.removeprefix('module ')}' has no attribute '{name}'"
    details = {"name": name, "obj_type": kind.split(" ", maxsplit=1)[0]}
    options.setdefault("subject", Subject(holder, details["obj_type"]))
    return propose(failed(source, "AttributeError", message, at=at, details=details, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "at", "kind", "expected"),
    [
        ("for k, v in d.iteritems(): pass", "d.iteritems", "dict", "for k, v in d.items(): pass"),
        ("x = d.has_key('a')", "d.has_key", "dict", "x = ('a' in d)"),
        ("if not d.has_key('a'): pass", "d.has_key", "dict", "if not ('a' in d): pass"),
        ("a.push(1)\na.push(2)", "a.push", "list", "a.append(1)\na.append(2)"),
        ("n = a.length + 1", "a.length", "list", "n = len(a) + 1"),
        ("n = a.length()", "a.length", "str", "n = len(a)"),
        ("x = s.toUpperCase()", "s.toUpperCase", "str", "x = s.upper()"),
        ("x = s.contains('b')", "s.contains", "str", "x = ('b' in s)"),
        ("x = s.decode('utf-8')", "s.decode", "str", "x = s"),
        ("x = g.next()", "g.next", "generator", "x = next(g)"),
        ("x = df.iteritems()", "df.iteritems", "pandas.DataFrame", "x = df.items()"),
        ("x = df.as_matrix()", "df.as_matrix", "pandas.core.frame.DataFrame", "x = df.to_numpy()"),
        ("x = df.sort('a')", "df.sort", "pandas.DataFrame", "x = df.sort_values('a')"),
        ("x = df.groupby('a')", "df.groupby", "polars.dataframe.frame.DataFrame", "x = df.group_by('a')"),
        ("x = np.float(3)", "np.float", "module numpy", "x = float(3)"),
        ("x = np.NaN", "np.NaN", "module numpy", "x = np.nan"),
        ("x = string.letters", "string.letters", "module string", "x = string.ascii_letters"),
        ("x = itertools.izip(a, b)", "itertools.izip", "module itertools", "x = zip(a, b)"),
        ("x = datetime.now()", "datetime.now", "module datetime", "x = datetime.datetime.now()"),
        (
            "x = collections.Mapping",
            "collections.Mapping",
            "module collections",
            "x = collections.abc.Mapping",
        ),
    ],
)
def test_what_is_called_otherwise_is_called_so(source: str, at: str, kind: str, expected: str) -> None:
    assert mended(no_attribute(source, at, kind)) == expected


def test_numpy_tells_in_words_of_its_own_what_is_gone() -> None:
    message = "`np.float_` was removed in the NumPy 2.0 release. Use `np.float64` instead."
    found = propose(failed("x = np.float_(1)", "AttributeError", message, at="np.float_"))
    assert mended(found) == "x = np.float64(1)"


def test_the_class_datetime_has_no_datetime_in_it() -> None:
    message = "type object 'datetime.datetime' has no attribute 'datetime'"
    found = propose(failed("x = datetime.datetime.now()", "AttributeError", message, at="datetime.datetime"))
    assert mended(found) == "x = datetime.now()"


@pytest.mark.parametrize(
    ("source", "at", "kind"),
    [
        ("x = df.ix[0]", "df.ix", "pandas.DataFrame"),
        ("x = df.append(other)", "df.append", "pandas.DataFrame"),
        ("x = s.decode('hex')", "s.decode", "str"),
        ("x = np.in1d(a, b)", "np.in1d", "module numpy"),
        ("x = a.size", "a.size", "list"),
    ],
)
def test_what_nothing_takes_the_place_of_is_only_advised(source: str, at: str, kind: str) -> None:
    suggested(no_attribute(source, at, kind))


def test_a_builtin_that_somebody_shadowed_is_not_used_in_place_of_another() -> None:
    suggested(no_attribute("x = np.float(3)", "np.float", "module numpy", names=("float",)))


def test_a_misspelt_attribute_is_the_only_one_near_it() -> None:
    subject = Subject("a", "list", attributes=("append", "extend", "insert", "sort"))
    assert mended(no_attribute("a.appendd(1)", "a.appendd", "list", subject=subject)) == "a.append(1)"
    members = {"plt": ("plot", "xlabel", "ylabel")}
    found = no_attribute("plt.xlable('a')", "plt.xlable", "module matplotlib.pyplot", members=members)
    assert mended(found) == "plt.xlabel('a')"


def test_an_attribute_that_may_be_another_is_only_suggested() -> None:
    subject = Subject("a", "A", attributes=("right", "prices"))
    assert no_attribute("x = a.left", "a.left", "A", subject=subject) is None
    suggested(no_attribute("x = a.light", "a.light", "A", subject=subject))
    suggested(no_attribute("x = a.price", "a.price", "A", subject=subject))
    valued = Subject("a", "A", attributes=("value",))
    assert mended(no_attribute("x = a.valeu", "a.valeu", "A", subject=valued)) == "x = a.value"
    suggested(no_attribute("x = a.valeu\na.valeu = 3", "a.valeu", "A", subject=valued))


def test_the_same_attribute_of_another_object_stays() -> None:
    subject = Subject("a", "list", attributes=("append",))
    found = no_attribute("a.appendd(1)\nb.appendd(1)", "a.appendd", "list", subject=subject)
    assert mended(found) == "a.append(1)\nb.appendd(1)"


# Frames ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "values", "expected"),
    [
        ("x = df.append(more)", {"more": "a: int64, b: str"}, "x = pd.concat([df, more])"),
        (
            "x = df.append({'a': 1}, ignore_index=True)",
            {},
            "x = pd.concat([df, pd.DataFrame([{'a': 1}])], ignore_index=True)",
        ),
        ("x = df.append(pd.DataFrame(r), sort=True)", {}, "x = pd.concat([df, pd.DataFrame(r)], sort=True)"),
    ],
)
def test_appending_to_a_frame_is_concatenating(source: str, values: dict[str, str], expected: str) -> None:
    found = no_attribute(
        source, "df.append", "pandas.DataFrame", values=values, names=("pd", "df"), subject=frame("a")
    )
    assert mended(found) == expected


@pytest.mark.parametrize(
    ("source", "digest"),
    [
        ("x = df.append(more)", "'a': int64"),  # a series would become a column
        ("x = df.append(more)", "None: int64"),
        ("x = df.append(more)", "[1, 2]"),
        ("x = df.append(more)", "{'a': 1}"),
        ("x = df.append(more, axis=1)", "a: int64, b: str"),
        ("x = df.append(make())", ""),
    ],
)
def test_appending_something_unknown_is_only_advised(source: str, digest: str) -> None:
    found = no_attribute(
        source, "df.append", "pandas.DataFrame", values={"more": digest}, names=("pd",), subject=frame("a")
    )
    assert "concat" in suggested(found)


def test_filling_by_a_method_has_a_method_of_its_own() -> None:
    message = "NDFrame.fillna() got an unexpected keyword argument 'method'"
    found = propose(
        failed("x = df['a'].fillna(method='pad')", "TypeError", message, at="df['a'].fillna(method='pad')")
    )
    assert mended(found) == "x = df['a'].ffill()"


# Calls -------------------------------------------------------------------------------------------------------------


def wrong_type(source: str, at: str, message: str, **options: object) -> Proposal | None:
    return propose(failed(source, "TypeError", message, at=at, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "at", "message", "expected"),
    [
        ("x = df.shape()", "df.shape()", "'tuple' object is not callable", "x = df.shape"),
        ("x = df('a').sum()", "df('a')", "'DataFrame' object is not callable", "x = df['a'].sum()"),
        (
            "x = datetime(2024, 1, 1)",
            "datetime(2024, 1, 1)",
            "'module' object is not callable",
            "x = datetime.datetime(2024, 1, 1)",
        ),
        (
            "for k in d.items: pass",
            "for k in d.items: pass",
            "'builtin_function_or_method' object is not iterable",
            "for k in d.items(): pass",
        ),
        (
            "n = len(d.keys)",
            "len(d.keys)",
            "object of type 'builtin_function_or_method' has no len()",
            "n = len(d.keys())",
        ),
    ],
)
def test_calls_that_are_too_many_or_missing_are_mended(
    source: str, at: str, message: str, expected: str
) -> None:
    assert mended(wrong_type(source, at, message)) == expected


@pytest.mark.parametrize(
    ("source", "at", "message"),
    [
        ("x = list((1, 2))", "list((1, 2))", "'list' object is not callable"),
        ("x = a(1)", "a(1)", "'list' object is not callable"),  # may count from 1
        ("x = math(1)", "math(1)", "'module' object is not callable"),
        ("x = 'a' + n", "'a' + n", 'can only concatenate str (not "int") to str'),
        ("x = a + b", "a + b", "unsupported operand type(s) for +: 'int' and 'str'"),
        ("f(a=1)", "f(a=1)", "f() got an unexpected keyword argument 'a'. Did you mean 'b'?"),
    ],
)
def test_types_that_do_not_fit_are_only_told_of(source: str, at: str, message: str) -> None:
    suggested(wrong_type(source, at, message))


# None --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("df = df.dropna(inplace=True)", "df = df.dropna()"),
        ("df = df.dropna(how='any', inplace=True)", "df = df.dropna(how='any')"),
        ("df = df.dropna(inplace=True, how='any')", "df = df.dropna(how='any')"),
        ("df = df.sort()", "df.sort()"),
    ],
)
def test_what_changes_in_place_is_not_assigned(line: str, kept: str) -> None:
    source = f"{line}  # tidy\nx = df[0]"
    found = wrong_type(source, "df[0]", "'NoneType' object is not subscriptable", values={"df": "None"})
    assert mended(found) == f"{kept}  # tidy\nx = df[0]"


def test_where_nothing_can_be_undone_a_lost_object_stays_lost() -> None:
    source = "df = df.dropna(inplace=True)\nx = df[0]"
    suggested(
        wrong_type(
            source,
            "df[0]",
            "'NoneType' object is not subscriptable",
            values={"df": "None"},
            has_checkpoint=False,
        )
    )


@pytest.mark.parametrize(
    "line", ["df = find()", "df = other.sort()", "df = other.dropna(inplace=True)", "df = None"]
)
def test_another_none_is_only_told_of(line: str) -> None:
    source = f"{line}\nx = df[0]"
    found = wrong_type(source, "df[0]", "'NoneType' object is not subscriptable", values={"df": "None"})
    assert "`df` is None" in suggested(found)


# What no rule can mend ---------------------------------------------------------------------------------------------


def test_an_index_is_told_with_the_bounds_that_there_are() -> None:
    def bounds(subject: Subject) -> str:
        return suggested(
            propose(failed("x = a[9]", "IndexError", "out of range", at="a[9]", subject=subject))
        )

    assert "3 elements: indices go from 0 to 2" in bounds(Subject("a", "list", length=3))
    assert "1 element: indices go from 0 to 0" in bounds(Subject("a", "list", length=1))
    assert "is empty" in bounds(Subject("a", "list", length=0))
    assert "shape 2 x 3" in bounds(Subject("a", "numpy.ndarray", shape=(2, 3), length=2))


def test_a_cell_out_of_time_is_told_what_to_raise() -> None:
    found = propose(Failure("while True: pass", "timeout", "timeout", "", reason="60 s, by cell_timeout_s"))
    assert "60 s, by cell_timeout_s" in suggested(found)
    assert "timeout_s" in suggested(found)


def test_a_check_that_failed_is_told_with_its_values() -> None:
    failure = failed("n = 3", "AssertionError", "", values={"n": "3"}, state="rejected")
    checked = Failure(
        failure.source, "rejected", "AssertionError", "", diagnosis=failure.diagnosis, check="n == 4"
    )
    assert suggested(propose(checked)) == "The cell ran, but n == 4 does not hold (n = 3)."
