"""Attributes that are called otherwise: gone from Python and its libraries, or another language's word for them.

Tables. Only where the same thing is there under the other name; what also changed is only advised.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ADVICE", "BUILTINS", "MEMBERSHIP", "RENAMED", "TYPOS"]

_ROW_INDEX = "use `with_row_index`, which calls the column `index` where it was `row_nr`"
_NEW_FROM_DATETIME = ("now", "today", "utcnow", "strptime", "fromtimestamp", "fromisoformat", "combine")

RENAMED: Mapping[str, Mapping[str, str]] = {
    "dict": {"iteritems": "items", "iterkeys": "keys", "itervalues": "values", "viewitems": "items"},
    "list": {
        "push": "append",
        "push_back": "append",
        "addAll": "extend",
    },
    "str": {
        "toUpperCase": "upper",
        "toLowerCase": "lower",
        "trim": "strip",
        "trimStart": "lstrip",
        "trimEnd": "rstrip",
        "indexOf": "find",
        "replaceAll": "replace",
        "startsWith": "startswith",
        "endsWith": "endswith",
    },
    "Thread": {"isAlive": "is_alive"},
    "pandas.DataFrame": {
        "iteritems": "items",
        "as_matrix": "to_numpy",
        "applymap": "map",
        "sort": "sort_values",
    },
    "pandas.Series": {"iteritems": "items", "as_matrix": "to_numpy", "order": "sort_values"},
    "polars.DataFrame": {
        "groupby": "group_by",
        "with_column": "with_columns",
    },
    "polars.LazyFrame": {"groupby": "group_by", "with_column": "with_columns"},
    "module collections": {
        name: f"abc.{name}"
        for name in (
            "Callable",
            "Hashable",
            "Iterable",
            "Iterator",
            "Mapping",
            "MutableMapping",
            "Sequence",
            "Set",
        )
    },
    "module datetime": {name: f"datetime.{name}" for name in _NEW_FROM_DATETIME},
    "module itertools": {"izip_longest": "zip_longest", "ifilterfalse": "filterfalse"},
    "module numpy": {
        "Inf": "inf",
        "Infinity": "inf",
        "NaN": "nan",
        "NAN": "nan",
        "PINF": "inf",
        "alltrue": "all",
        "complex_": "complex128",
        "cumproduct": "cumprod",
        "float_": "float64",
        "infty": "inf",
        "mat": "asmatrix",
        "product": "prod",
        "round_": "round",
        "row_stack": "vstack",
        "sometrue": "any",
        "string_": "bytes_",
        "trapz": "trapezoid",
        "unicode_": "str_",
    },
    "module os": {"getcwdu": "getcwd"},
    "module pandas": {"scatter_matrix": "plotting.scatter_matrix"},
    "module string": {
        "letters": "ascii_letters",
        "lowercase": "ascii_lowercase",
        "uppercase": "ascii_uppercase",
    },
    "module sys": {"maxint": "maxsize"},
}
"""By type, or by module: an attribute, and what it is called there."""

BUILTINS: Mapping[str, Mapping[str, str]] = {
    "module itertools": {"izip": "zip", "imap": "map", "ifilter": "filter"},
    "module numpy": {
        "bool": "bool",
        "complex": "complex",
        "float": "float",
        "int": "int",
        "long": "int",
        "object": "object",
        "str": "str",
        "unicode": "str",
    },
}
"""What was only another name of a builtin, or became one."""

MEMBERSHIP: Mapping[str, frozenset[str]] = {
    "dict": frozenset({"has_key", "contains", "containsKey", "has", "hasOwnProperty"}),
    "list": frozenset({"contains", "includes"}),
    "set": frozenset({"contains", "has"}),
    "str": frozenset({"contains", "includes"}),
    "tuple": frozenset({"contains", "includes"}),
}
"""Methods that ask whether something is in it."""

TYPOS: Mapping[str, str] = {
    "sort_value": "sort_values",
    "value_count": "value_counts",
    "values_count": "value_counts",
    "values_counts": "value_counts",
    "drop_duplicate": "drop_duplicates",
    "read_cvs": "read_csv",
}
"""What is often written for a method of frames or of what reads them, and can be nothing else."""

ADVICE: Mapping[str, Mapping[str, str]] = {
    "pandas.DataFrame": {
        "ix": "use `.loc` for labels or `.iloc` for positions",
        "append": "use `pd.concat([…])`",
        "mad": "use `(df - df.mean()).abs().mean()`",
        "lookup": "use `.melt` and `.loc`, or numpy indexing",
    },
    "pandas.Series": {
        "ix": "use `.loc` or `.iloc`",
        "append": "use `pd.concat([…])`",
        "mad": "use `(s - s.mean()).abs().mean()`",
    },
    "DatetimeProperties": {
        "week": "use `.dt.isocalendar().week`",
        "weekofyear": "use `.dt.isocalendar().week`",
        "weekday_name": "use `.dt.day_name()`",
    },
    "module numpy": {
        "in1d": "use `np.isin`, which keeps the shape",
        "NINF": "use `-np.inf`",
        "asscalar": "use `.item()`",
        "msort": "use `np.sort(a, axis=0)`",
    },
    "module pandas": {
        "Panel": "use a frame with a MultiIndex",
        "rolling_mean": "use `.rolling(n).mean()`",
        "Int64Index": "use `pd.Index`",
        "datetime": "use the module `datetime`",
        "np": "import numpy itself",
    },
    "module string": {
        "maketrans": "use `str.maketrans`",
        "join": "use the separator's own `.join`",
        "split": "use the text's own `.split`",
    },
    "module time": {
        "clock": "use `time.perf_counter` for what passes, `time.process_time` for what is worked"
    },
    "module inspect": {"getargspec": "use `inspect.signature`"},
    "list": {
        "add": "use `append`, or make it a set, which holds nothing twice",
        "shape": "make it an array first: `numpy.array(…)`",
        "size": "use `len(…)`",
    },
    "polars.DataFrame": {"with_row_count": _ROW_INDEX},
    "polars.LazyFrame": {"with_row_count": _ROW_INDEX},
    "set": {"append": "use `add`, or make it a list, which holds things twice and in order"},
    "str": {"decode": "a text is decoded already"},
}
"""What to do where nothing takes its place as it is."""
