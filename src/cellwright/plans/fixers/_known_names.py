"""Names that mean one import to everybody: aliases of libraries, modules, and what is imported from them.

Tables, and how a name's use decides between two meanings. What is not here is not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cellwright.sandbox.approved_packages import IMPORT_NAMES, normal_name

__all__ = ["MODULE_OF", "WELL_KNOWN", "Import", "distributions_for", "installable", "known_import"]

ALIASES: Mapping[str, str] = {
    "alt": "altair",
    "ctk": "customtkinter",
    "dd": "dask.dataframe",
    "ET": "xml.etree.ElementTree",
    "gpd": "geopandas",
    "jnp": "jax.numpy",
    "lgb": "lightgbm",
    "mpl": "matplotlib",
    "mpatches": "matplotlib.patches",
    "mdates": "matplotlib.dates",
    "mticker": "matplotlib.ticker",
    "np": "numpy",
    "nx": "networkx",
    "pa": "pyarrow",
    "pd": "pandas",
    "pl": "polars",
    "plt": "matplotlib.pyplot",
    "pq": "pyarrow.parquet",
    "px": "plotly.express",
    "go": "plotly.graph_objects",
    "sm": "statsmodels.api",
    "smf": "statsmodels.formula.api",
    "sns": "seaborn",
    "tf": "tensorflow",
    "xgb": "xgboost",
    "xr": "xarray",
}

ALIAS_USES: Mapping[str, frozenset[str]] = {
    "pa": frozenset(
        {"Table", "array", "table", "schema", "field", "int64", "string", "float64", "RecordBatch"}
    ),
    "pl": frozenset(
        {
            "DataFrame",
            "LazyFrame",
            "Series",
            "col",
            "lit",
            "when",
            "concat",
            "len",
            "sum",
            "mean",
            "min",
            "max",
        }
        | {
            f"{way}_{kind}"
            for way in ("read", "scan")
            for kind in ("csv", "parquet", "json", "ndjson", "excel")
        }
        | {"Date", "Datetime", "Float64", "Int64", "String", "Utf8", "Boolean", "Categorical"}
    ),
}
"""Aliases that more than one library goes by: only what is used of them tells which."""

_MODULES = """
    abc argparse ast asyncio base64 bisect bz2 calendar collections concurrent configparser contextlib copyreg csv
    ctypes dataclasses decimal difflib enum fnmatch fractions ftplib functools gc getpass gettext glob gzip hashlib heapq
    hmac importlib inspect io ipaddress itertools json linecache locale logging lzma math mimetypes multiprocessing
    os pathlib pickle platform pprint random re sched shelve shlex shutil smtplib socket sqlite3 ssl stat statistics
    struct subprocess sys sysconfig tarfile tempfile textwrap threading timeit tomllib traceback typing unicodedata
    unittest urllib uuid warnings weakref xml zipfile zlib zoneinfo
    altair bs4 cv2 dask duckdb geopandas joblib lightgbm matplotlib networkx nltk numpy openpyxl pandas plotly polars
    pyarrow requests scipy seaborn sklearn spacy sqlalchemy statsmodels sympy tensorflow torch torchvision transformers
    xarray xgboost yaml
"""

MODULES = frozenset(_MODULES.split())
"""Modules whose name is nobody's variable."""

WORD_MODULES: Mapping[str, frozenset[str]] = {
    "array": frozenset({"array"}),
    "copy": frozenset({"copy", "deepcopy"}),
    "html": frozenset({"escape", "unescape"}),
    "operator": frozenset(
        {"itemgetter", "attrgetter", "methodcaller", "add", "mul", "sub", "truediv", "xor"}
    ),
    "queue": frozenset({"Queue", "LifoQueue", "PriorityQueue", "SimpleQueue", "Empty", "Full"}),
    "secrets": frozenset({"token_hex", "token_urlsafe", "token_bytes", "randbelow", "compare_digest"}),
    "signal": frozenset({"SIGINT", "SIGTERM", "SIGALRM", "SIGKILL", "alarm", "getsignal"}),
    "string": frozenset(
        {
            "ascii_letters",
            "ascii_lowercase",
            "ascii_uppercase",
            "capwords",
            "digits",
            "hexdigits",
            "octdigits",
        }
        | {"printable", "punctuation", "whitespace", "Template", "Formatter"}
    ),
    "time": frozenset(
        {
            "time",
            "time_ns",
            "sleep",
            "perf_counter",
            "perf_counter_ns",
            "process_time",
            "monotonic",
            "strftime",
        }
        | {"strptime", "localtime", "gmtime", "mktime", "ctime"}
    ),
    "types": frozenset({"SimpleNamespace", "MappingProxyType", "ModuleType", "FunctionType", "MethodType"}),
}
"""Modules whose name is also a word: only what is used of them tells that they are meant."""

_MEMBERS: Mapping[str, str] = {
    "abc": "ABC ABCMeta abstractmethod",
    "collections": "ChainMap Counter OrderedDict defaultdict deque namedtuple",
    "concurrent.futures": "ProcessPoolExecutor ThreadPoolExecutor as_completed",
    "contextlib": "contextmanager redirect_stderr redirect_stdout",
    "copy": "deepcopy",
    "dataclasses": "asdict dataclass",
    "datetime": "timedelta",
    "decimal": "Decimal ROUND_DOWN ROUND_HALF_EVEN ROUND_HALF_UP",
    "enum": "Enum IntEnum StrEnum",
    "fractions": "Fraction",
    "functools": "cached_property lru_cache partial reduce singledispatch total_ordering wraps",
    "importlib": "import_module reload",
    "io": "BytesIO StringIO TextIOWrapper",
    "itertools": "combinations combinations_with_replacement islice permutations starmap takewhile dropwhile zip_longest",
    "operator": "attrgetter itemgetter",
    "pathlib": "Path PurePath PurePosixPath",
    "textwrap": "dedent",
    "types": "SimpleNamespace MappingProxyType",
    "typing": "Any ClassVar Dict FrozenSet List Literal NamedTuple NewType Optional Protocol Tuple Type TypedDict"
    " TypeVar Union",
    "urllib.parse": "parse_qs quote_plus unquote_plus urlencode urljoin urlparse urlsplit",
    "urllib.request": "urlopen urlretrieve",
    "uuid": "uuid4",
    "zipfile": "ZipFile",
    "zoneinfo": "ZoneInfo",
    "bs4": "BeautifulSoup",
    "matplotlib.animation": "FuncAnimation",
    "scipy.optimize": "curve_fit",
    "sklearn.cluster": "DBSCAN KMeans",
    "sklearn.compose": "ColumnTransformer",
    "sklearn.datasets": "load_breast_cancer load_diabetes load_digits load_iris load_wine make_blobs make_classification"
    " make_regression",
    "sklearn.decomposition": "PCA TruncatedSVD",
    "sklearn.ensemble": "GradientBoostingClassifier GradientBoostingRegressor RandomForestClassifier"
    " RandomForestRegressor",
    "sklearn.feature_extraction.text": "CountVectorizer TfidfVectorizer",
    "sklearn.impute": "KNNImputer SimpleImputer",
    "sklearn.linear_model": "ElasticNet Lasso LinearRegression LogisticRegression Ridge",
    "sklearn.metrics": "accuracy_score classification_report confusion_matrix f1_score mean_absolute_error"
    " mean_squared_error precision_score r2_score recall_score roc_auc_score silhouette_score",
    "sklearn.model_selection": "GridSearchCV KFold RandomizedSearchCV StratifiedKFold cross_val_score train_test_split",
    "sklearn.naive_bayes": "GaussianNB MultinomialNB",
    "sklearn.neighbors": "KNeighborsClassifier KNeighborsRegressor",
    "sklearn.pipeline": "Pipeline make_pipeline",
    "sklearn.preprocessing": "LabelEncoder MinMaxScaler OneHotEncoder OrdinalEncoder PolynomialFeatures"
    " RobustScaler StandardScaler",
    "sklearn.svm": "SVC SVR",
    "sklearn.tree": "DecisionTreeClassifier DecisionTreeRegressor",
    "sqlalchemy": "create_engine",
    "tqdm": "trange",
}

MEMBERS: Mapping[str, str] = {name: module for module, names in _MEMBERS.items() for name in names.split()}
"""What is imported from one module only, whoever uses it."""

_UNCALLED = """
    abstractmethod cached_property contextmanager dataclass lru_cache singledispatch total_ordering
"""

UNCALLED = frozenset(_UNCALLED.split())
"""What is a function, and stands before a definition without being called."""

OWN_NAMES: Mapping[str, frozenset[str]] = {
    "datetime": frozenset(
        {"combine", "fromisoformat", "fromtimestamp", "now", "strptime", "today", "utcnow"}
    ),
    "glob": frozenset(),
    "pprint": frozenset(),
    "tqdm": frozenset({"pandas", "write"}),
}
"""Modules that hold something of their own name, with what is used of that and not of the module."""

AMBIGUOUS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ["sqrt", "log", "log10", "log2", "exp", "sin", "cos", "tan", "floor", "ceil", "pi", "isnan"],
        ("math", "numpy"),
    ),
    **dict.fromkeys(["mean", "median"], ("statistics", "numpy")),
    **dict.fromkeys(["randint", "choice", "shuffle", "uniform"], ("random", "numpy.random")),
    **dict.fromkeys(["stdev", "mode", "variance"], ("statistics",)),
    **dict.fromkeys(["DataFrame", "Series", "read_csv"], ("pandas", "polars")),
    **dict.fromkeys(["array", "arange", "linspace", "zeros", "ones"], ("numpy",)),
    **dict.fromkeys(
        ["product", "chain", "cycle", "count", "repeat", "groupby", "accumulate"], ("itertools",)
    ),
    **dict.fromkeys(["date", "timezone"], ("datetime",)),
    **dict.fromkeys(
        ["Iterable", "Iterator", "Sequence", "Mapping", "Callable"], ("collections.abc", "typing")
    ),
    "field": ("dataclasses",),
    "sleep": ("time", "asyncio"),
    "stats": ("scipy",),
    "nn": ("torch",),
    "quote": ("urllib.parse", "shlex"),
}
"""What may come from more than one module, or be somebody's own: only suggested."""

_SUBMODULE_NAMES = """
    concurrent.futures email.mime.multipart email.mime.text importlib.metadata importlib.resources importlib.util
    logging.config logging.handlers matplotlib.dates matplotlib.patches matplotlib.pyplot matplotlib.ticker os.path
    pyarrow.parquet plotly.express plotly.graph_objects sklearn.cluster sklearn.datasets sklearn.decomposition
    sklearn.ensemble sklearn.linear_model sklearn.metrics sklearn.model_selection sklearn.preprocessing sklearn.svm
    sklearn.tree statsmodels.api unittest.mock urllib.error urllib.parse urllib.request xml.dom.minidom
    xml.etree.ElementTree
"""

_SUBMODULES = frozenset(_SUBMODULE_NAMES.split())
"""What is used through its package's name, and does not come with it."""


@dataclass(frozen=True, slots=True)
class Import:
    """What would define a name."""

    statements: tuple[str, ...]
    """Lines that import it; of several, any could be meant if it is not certain."""
    module: str
    certain: bool


def known_import(
    name: str, chains: Collection[tuple[str, ...]], *, called: bool, bare: bool
) -> Import | None:
    """What would define ``name``, by how it is used.

    ``chains`` are the attributes it is used with (``("path", "join")``); ``called`` says whether it is called itself,
    ``bare`` whether it is used in any other way, as only a variable would be.
    """
    firsts = {chain[0] for chain in chains}
    only_attributes = bool(chains) and not called and not bare
    if name in ALIASES:
        certain = only_attributes and firsts <= ALIAS_USES.get(name, firsts)
        return Import((f"import {ALIASES[name]} as {name}",), ALIASES[name], certain)
    if name in OWN_NAMES:
        return _own(name, firsts, called=called, bare=bare)
    if name in MEMBERS:
        # `r2_score` that nobody calls is a number that nobody computed.
        certain = called or not bare or name in UNCALLED or not name[0].islower()
        return Import((f"from {MEMBERS[name]} import {name}",), MEMBERS[name], certain)
    if name in MODULES or name in WORD_MODULES:
        certain = only_attributes and firsts <= WORD_MODULES.get(name, firsts)
        return Import(_imports_of(name, chains), name, certain)
    if name in AMBIGUOUS:
        modules = AMBIGUOUS[name]
        return Import(tuple(f"from {module} import {name}" for module in modules), modules[0], certain=False)
    return None


def _own(name: str, firsts: set[str], *, called: bool, bare: bool) -> Import:
    """A module with something of its own name in it: calls and what only that has tell them apart."""
    of_member = firsts & OWN_NAMES[name]
    if (called or of_member) and firsts <= OWN_NAMES[name]:
        return Import((f"from {name} import {name}",), name, not bare)
    certain = bool(firsts) and not of_member and not called and not bare
    return Import((f"import {name}",), name, certain and (name != "datetime" or firsts <= _DATETIME))


_DATETIME = frozenset({"datetime", "timedelta", "timezone", "UTC", "MINYEAR", "MAXYEAR"})


def _imports_of(name: str, chains: Collection[tuple[str, ...]]) -> tuple[str, ...]:
    dotted = {".".join((name, *chain[:length])) for chain in chains for length in range(1, len(chain) + 1)}
    wanted = sorted(dotted & _SUBMODULES - {"os.path"})
    return ("\n".join(f"import {module}" for module in wanted),) if wanted else (f"import {name}",)


# Maps modules to the packages that install them, and lists the modules that are known at all.

_DISTRIBUTIONS: dict[str, tuple[str, ...]] = {
    **{name: (distribution,) for name, distribution in IMPORT_NAMES.items()},
    "crypto": ("pycryptodome",),
    "cv2": ("opencv-python-headless", "opencv-python", "opencv-contrib-python"),
    "faiss": ("faiss-cpu",),
    "git": ("gitpython",),
    "google-protobuf": ("protobuf",),
    "ipywidgets": ("ipywidgets",),
    "jose": ("python-jose",),
    "jwt": ("pyjwt",),
    "kafka": ("kafka-python",),
    "ldap": ("python-ldap",),
    "levenshtein": ("levenshtein",),
    "magic": ("python-magic",),
    "mysqldb": ("mysqlclient",),
    "openssl": ("pyopenssl",),
    "pil": ("pillow",),
    "pkg-resources": ("setuptools",),
    "psycopg2": ("psycopg2-binary", "psycopg2"),
    "serial": ("pyserial",),
    "slugify": ("python-slugify",),
    "telegram": ("python-telegram-bot",),
    "umap": ("umap-learn",),
    "usb": ("pyusb",),
    "websocket": ("websocket-client",),
    "win32com": ("pywin32",),
    "zmq": ("pyzmq",),
}

_NAMESPACES = {
    "google.protobuf": "protobuf",
    "google.cloud.storage": "google-cloud-storage",
    "ruamel.yaml": "ruamel-yaml",
}

MODULE_OF: dict[str, str] = {
    "beautifulsoup": "bs4",
    "beautifulsoup4": "bs4",
    "opencv": "cv2",
    "opencv_python": "cv2",
    "pillow": "PIL",
    "pycryptodome": "Crypto",
    "pyserial": "serial",
    "python_dateutil": "dateutil",
    "python_docx": "docx",
    "python_dotenv": "dotenv",
    "pyyaml": "yaml",
    "scikit_image": "skimage",
    "scikit_learn": "sklearn",
    "scikitlearn": "sklearn",
}
"""Names that distributions go by and modules do not, folded."""

_WELL_KNOWN = """
    PIL aiohttp altair asyncio bokeh boto3 bs4 catboost collections concurrent csv cv2 cvxpy dask datetime dateutil
    decimal django docx duckdb faker fastapi flask folium functools gensim geopandas hashlib httpx hypothesis ibis
    igraph imageio importlib itertools jax joblib json keras lightgbm logging lxml math matplotlib multiprocessing
    networkx nltk numba numpy openai openpyxl optuna pandas pathlib patsy pickle plotly polars prophet pyarrow pydantic
    pymc pymongo pyspark pytest random redis requests scipy scrapy seaborn selenium shap shapely shutil skimage sklearn
    spacy sqlalchemy sqlite3 statistics statsmodels string subprocess sympy tabulate tempfile tensorflow threading
    attrs click cupy dash geopy h5py mlflow pandera panel peewee pymc3 ray rich scapy simpy tables tornado typer wandb
    torch torchvision tqdm transformers typing unittest urllib uvicorn xarray xgboost xlrd xlsxwriter yaml zipfile
"""

WELL_KNOWN = frozenset(_WELL_KNOWN.split())
"""Modules that people really use: what a misspelt name may mean, and what is no misspelling of another."""


def distributions_for(module: str) -> tuple[str, ...]:
    """What may bring a module, the most usual first."""
    for namespace, distribution in _NAMESPACES.items():
        if module == namespace or module.startswith(namespace + "."):
            return (distribution,)
    top = normal_name(module.partition(".")[0])
    return _DISTRIBUTIONS.get(top, (top,) if re.fullmatch(r"[a-z0-9][a-z0-9-]*", top) else ())


def installable(module: str, approved: frozenset[str]) -> str | None:
    """The distribution to install for a module, if one is approved."""
    return next((name for name in distributions_for(module) if normal_name(name) in approved), None)
