"""What was moved or renamed between Python 2 and 3, and in libraries: modules and what is imported from them.

Tables. Only moves after which the same thing is there under the other name; what also changed is only advised.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["GONE", "MOVED_MEMBERS", "MOVED_MODULES", "UNCHANGED", "moved_member"]

MOVED_MODULES: Mapping[str, str] = {
    "BaseHTTPServer": "http.server",
    "ConfigParser": "configparser",
    "Cookie": "http.cookies",
    "HTMLParser": "html.parser",
    "Queue": "queue",
    "SimpleHTTPServer": "http.server",
    "SocketServer": "socketserver",
    "StringIO": "io",
    "__builtin__": "builtins",
    "cPickle": "pickle",
    "cStringIO": "io",
    "cookielib": "http.cookiejar",
    "copy_reg": "copyreg",
    "htmlentitydefs": "html.entities",
    "httplib": "http.client",
    "pandas.tools.plotting": "pandas.plotting",
    "pandas.tseries.plotting": "pandas.plotting",
    "pandas.util.testing": "pandas.testing",
    "sklearn.cross_validation": "sklearn.model_selection",
    "sklearn.externals.joblib": "joblib",
    "sklearn.grid_search": "sklearn.model_selection",
    "sklearn.learning_curve": "sklearn.model_selection",
    "thread": "_thread",
    "urllib2": "urllib.request",
    "urlparse": "urllib.parse",
    "xmlrpclib": "xmlrpc.client",
}

_ABSTRACT = """
    Awaitable AsyncIterable AsyncIterator Callable Collection Container Coroutine Generator Hashable ItemsView Iterable
    Iterator KeysView Mapping MappingView MutableMapping MutableSequence MutableSet Reversible Sequence Set Sized
    ValuesView
"""

MOVED_MEMBERS: Mapping[str, Mapping[str, str]] = {
    "collections": {name: f"collections.abc.{name}" for name in _ABSTRACT.split()},
    "itertools": {"izip_longest": "itertools.zip_longest", "ifilterfalse": "itertools.filterfalse"},
    "pandas.io.json": {"json_normalize": "pandas.json_normalize"},
    "scipy": {"interp": "numpy.interp"},
    "scipy.integrate": {
        "trapz": "scipy.integrate.trapezoid",
        "cumtrapz": "scipy.integrate.cumulative_trapezoid",
    },
    "scipy.misc": {
        "comb": "scipy.special.comb",
        "factorial": "scipy.special.factorial",
        "logsumexp": "scipy.special.logsumexp",
        "face": "scipy.datasets.face",
        "ascent": "scipy.datasets.ascent",
        "electrocardiogram": "scipy.datasets.electrocardiogram",
    },
    "sklearn.externals": {"joblib": "joblib"},
    "string": {
        "letters": "string.ascii_letters",
        "lowercase": "string.ascii_lowercase",
        "uppercase": "string.ascii_uppercase",
    },
    "types": {"StringType": "builtins.str", "ListType": "builtins.list", "DictType": "builtins.dict"},
    "urllib": {
        **{
            name: f"urllib.parse.{name}"
            for name in ["urlencode", "quote", "quote_plus", "unquote", "unquote_plus", "urlparse", "urljoin"]
        },
        **{name: f"urllib.request.{name}" for name in ["urlopen", "urlretrieve", "Request", "pathname2url"]},
    },
    "urllib2": {
        "HTTPError": "urllib.error.HTTPError",
        "URLError": "urllib.error.URLError",
        "quote": "urllib.parse.quote",
        "unquote": "urllib.parse.unquote",
    },
}

_UNCHANGED = """
    GridSearchCV ParameterGrid ParameterSampler RandomizedSearchCV cross_val_predict cross_val_score learning_curve
    train_test_split validation_curve
"""
UNCHANGED = frozenset(_UNCHANGED.split())
"""What takes the same arguments in scikit-learn's new place for it."""

GONE: Mapping[str, str] = {
    "imp": "the module `imp` is gone: `importlib` has what takes its place",
    "distutils": "the module `distutils` is gone: `setuptools` or `shutil` has what takes its place",
    "scipy.misc.imread": "`imread` is gone from scipy: use `imageio.v3.imread` or `matplotlib.pyplot.imread`",
    "scipy.misc.imresize": "`imresize` is gone from scipy: use `PIL.Image.resize`",
    "sklearn.preprocessing.Imputer": "`Imputer` is gone: use `sklearn.impute.SimpleImputer`, whose arguments differ",
    "sklearn.datasets.load_boston": "the Boston data set is gone from scikit-learn: `fetch_california_housing` is one like it",
    "sklearn.metrics.plot_confusion_matrix": "it is gone: use `ConfusionMatrixDisplay.from_estimator`",
    "sklearn.metrics.plot_roc_curve": "it is gone: use `RocCurveDisplay.from_estimator`",
    "fractions.gcd": "it is gone: use `math.gcd`, which is never negative",
    "scipy.integrate.simps": "it is gone: use `simpson`, which treats an even number of points otherwise",
    "time.clock": "it is gone: use `perf_counter` for what passes, `process_time` for what is worked",
    "inspect.getargspec": "it is gone: use `inspect.signature` or `inspect.getfullargspec`, which answers differently",
    "itertools.izip": "it is gone: the builtin `zip` is lazy now",
    "itertools.imap": "it is gone: the builtin `map` is lazy now",
    "itertools.ifilter": "it is gone: the builtin `filter` is lazy now",
}
"""What has no other name, and what to do instead."""


def moved_member(module: str, name: str) -> str | None:
    """Where something went that used to be in a module, in full."""
    found = MOVED_MEMBERS.get(module, {}).get(name)
    if found is None and module in MOVED_MODULES:
        return f"{MOVED_MODULES[module]}.{name}"
    return found
