"""What newer releases of data libraries renamed, by library and by the version that the old name is gone from.

Only data. Each row is proved against the installed libraries (``tests/unit/plans/test_drift_table.py``): the old name is
gone, the new one is there. A row is only for what does the same under its new name; what changed besides says so in
``differs``, and is suggested instead of done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = [
    "COLORMAPS",
    "FREQUENCIES",
    "KEYWORDS",
    "MODULES",
    "NAMES",
    "PERIODS",
    "POSITIONS",
    "STYLES",
    "VALUES",
    "Keyword",
    "Module",
    "Positions",
    "Rename",
    "Style",
    "Value",
]


@dataclass(frozen=True, slots=True)
class Rename:
    """A function, class, method or attribute that has another name or another place."""

    library: str
    since: str
    old: str
    new: str
    adds: Mapping[str, str] = field(default_factory=dict)
    """Keyword arguments, as source, that keep what was the default."""
    positions: tuple[str, ...] = ()
    """What the old one's arguments were called by position, where the new one does not take them so."""
    template: str = ""
    """The whole call as it is written now, ``{0}`` being its first argument; they are in ``positions``."""
    takes: frozenset[str] | None = None
    """The keyword arguments that mean the same in both; None where all do."""
    within: str = ""
    """What makes of the new one's result the type that the old one gave."""
    differs: str = ""


@dataclass(frozen=True, slots=True)
class Keyword:
    """A keyword argument that has another name, or none."""

    library: str
    since: str
    callables: tuple[str, ...]
    old: str
    new: str | None
    """None: it had no effect any more, and is left out. Empty: its value is given by position."""
    values: Mapping[str, str] = field(default_factory=dict)
    """What becomes of each value, as source; empty where all stay."""
    callee: str = ""
    """The name of the method that takes it now, where that is another."""
    adds: Mapping[str, str] = field(default_factory=dict)
    """Keyword arguments, as source, without which the new one does something else."""
    differs: str = ""


@dataclass(frozen=True, slots=True)
class Positions:
    """Arguments that have to be named, in the order in which they could be given by position."""

    library: str
    since: str
    callables: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A value of an argument that is spelt otherwise."""

    library: str
    since: str
    callables: tuple[str, ...]
    parameter: str
    old: str
    new: str
    """As source."""


@dataclass(frozen=True, slots=True)
class Module:
    """A module whose public names are elsewhere, all under the names that they had."""

    library: str
    since: str
    old: str
    new: str
    names: tuple[str, ...]
    """Names that are known to be there."""


@dataclass(frozen=True, slots=True)
class Style:
    """Style sheets whose names begin otherwise."""

    library: str
    since: str
    old: str
    new: str


STYLES = (Style("matplotlib", "3.8", "seaborn", "seaborn-v0_8"),)

COLORMAPS: Mapping[str, str] = {
    "spectral": "nipy_spectral",
    "spectral_r": "nipy_spectral_r",
    "Vega10": "tab10",
    "Vega20": "tab20",
    "Vega20b": "tab20b",
    "Vega20c": "tab20c",
}
"""Of matplotlib, since 2.2."""

FREQUENCIES: Mapping[str, str] = {
    "A": "YE",
    "AS": "YS",
    "BA": "BYE",
    "BAS": "BYS",
    "BH": "bh",
    "BM": "BME",
    "BQ": "BQE",
    "BY": "BYE",
    "CBH": "cbh",
    "CBM": "CBME",
    "H": "h",
    "L": "ms",
    "M": "ME",
    "N": "ns",
    "Q": "QE",
    "S": "s",
    "SM": "SME",
    "T": "min",
    "U": "us",
    "Y": "YE",
}
"""Of pandas' offsets, since 3.0."""

PERIODS: Mapping[str, str] = {
    "A": "Y",
    "H": "h",
    "L": "ms",
    "N": "ns",
    "S": "s",
    "T": "min",
    "U": "us",
}
"""Of pandas' periods, since 3.0: months and quarters are called there as they were."""

NAMES: tuple[Rename, ...] = (
    Rename("matplotlib", "3.9", "matplotlib.cm.get_cmap", "matplotlib.pyplot.get_cmap"),
    Rename(
        "matplotlib",
        "3.9",
        "matplotlib.cm.register_cmap",
        "matplotlib.colormaps.register",
        positions=("name", "cmap"),
        takes=frozenset(["name", "cmap"]),
    ),
    *(
        Rename("matplotlib", "2.2", f"matplotlib.cm.{old}", f"matplotlib.cm.{new}")
        for old, new in COLORMAPS.items()
    ),
    Rename(
        "matplotlib", "2.2", "matplotlib.axes.Axes.set_axis_bgcolor", "matplotlib.axes.Axes.set_facecolor"
    ),
    Rename(
        "matplotlib", "2.2", "matplotlib.axes.Axes.get_axis_bgcolor", "matplotlib.axes.Axes.get_facecolor"
    ),
    Rename("matplotlib", "3.1", "matplotlib.mlab.normpdf", "scipy.stats.norm.pdf"),
    Rename(
        "pandas",
        "0.25",
        "pandas.TimeGrouper",
        "pandas.Grouper",
        positions=("freq", "closed", "label"),
    ),
    *(
        Rename(
            "pandas",
            "0.23",
            f"pandas.rolling_{each}",
            f"pandas.api.typing.Rolling.{each}",
            positions=("arg", "window"),
            template=f"{{0}}.rolling({{1}}).{each}()",
            takes=frozenset(["window"]),
        )
        for each in ("mean", "sum", "std", "var", "min", "max", "median")
    ),
    Rename(
        "pandas",
        "0.23",
        "pandas.rolling_count",
        "pandas.api.typing.Rolling.count",
        positions=("arg", "window"),
        template="{0}.rolling({1}, min_periods=0).count()",
        takes=frozenset(["window"]),
    ),
    *(
        Rename(
            "pandas",
            "0.23",
            f"pandas.expanding_{each}",
            f"pandas.api.typing.Expanding.{each}",
            positions=("arg",),
            template=f"{{0}}.expanding().{each}()",
            takes=frozenset(),
        )
        for each in ("mean", "sum", "std", "var", "min", "max", "median", "count")
    ),
    Rename("pandas", "2.0", "pandas.datetime", "datetime.datetime"),
    Rename(
        "pandas", "2.0", "pandas.Int64Index", "pandas.Index", differs="it makes no `int64` of other numbers"
    ),
    Rename(
        "pandas",
        "1.0",
        "pandas.DataFrame.get_value",
        "pandas.DataFrame.at",
        differs="it is written `at[row, column]`",
    ),
    Rename("pandas", "3.0", "pandas.DataFrame.applymap", "pandas.DataFrame.map"),
    Rename(
        "seaborn",
        "0.13",
        "seaborn.factorplot",
        "seaborn.catplot",
        adds={"kind": '"point"'},
        positions=("x", "y", "hue", "data", "row", "col"),
    ),
    Rename(
        "sklearn",
        "0.20",
        "sklearn.decomposition.RandomizedPCA",
        "sklearn.decomposition.PCA",
        adds={"svd_solver": '"randomized"'},
        positions=("n_components",),
        takes=frozenset(["n_components", "copy", "whiten", "random_state"]),
    ),
    Rename(
        "sklearn",
        "0.20",
        "sklearn.mixture.GMM",
        "sklearn.mixture.GaussianMixture",
        adds={"covariance_type": '"diag"'},
        positions=("n_components", "covariance_type"),
        takes=frozenset(["n_components", "covariance_type", "random_state", "n_init"]),
        differs="it begins from other guesses, and some of its attributes have other names",
    ),
    Rename(
        "sklearn",
        "0.22",
        "sklearn.datasets.fetch_mldata",
        "sklearn.datasets.fetch_openml",
        differs="data sets have other names and other types there",
    ),
    Rename(
        "sklearn",
        "0.20",
        "sklearn.gaussian_process.GaussianProcess",
        "sklearn.gaussian_process.GaussianProcessRegressor",
        differs="it takes a kernel in place of `corr` and `theta0`, and `predict` takes `return_std`",
    ),
    Rename(
        "sklearn",
        "0.22",
        "sklearn.preprocessing.Imputer",
        "sklearn.impute.SimpleImputer",
        takes=frozenset(["strategy", "copy"]),
    ),
    *(
        Rename(
            "sklearn",
            "1.2",
            f"sklearn.feature_extraction.{each}.get_feature_names",
            f"sklearn.feature_extraction.{each}.get_feature_names_out",
            within="list",
        )
        for each in ("text.CountVectorizer", "text.TfidfVectorizer", "DictVectorizer")
    ),
    *(
        Rename(
            "sklearn",
            "1.2",
            f"sklearn.preprocessing.{each}.get_feature_names",
            f"sklearn.preprocessing.{each}.get_feature_names_out",
            differs="it gives an array, and names the columns of a frame as that does",
        )
        for each in ("PolynomialFeatures", "OneHotEncoder")
    ),
    Rename(
        "sklearn",
        "1.2",
        "sklearn.metrics.plot_confusion_matrix",
        "sklearn.metrics.ConfusionMatrixDisplay.from_estimator",
    ),
    Rename(
        "sklearn", "1.2", "sklearn.metrics.plot_roc_curve", "sklearn.metrics.RocCurveDisplay.from_estimator"
    ),
    Rename(
        "sklearn",
        "1.2",
        "sklearn.metrics.plot_precision_recall_curve",
        "sklearn.metrics.PrecisionRecallDisplay.from_estimator",
    ),
    Rename(
        "sklearn",
        "1.2",
        "sklearn.inspection.plot_partial_dependence",
        "sklearn.inspection.PartialDependenceDisplay.from_estimator",
    ),
    Rename("scipy", "1.14", "scipy.integrate.trapz", "scipy.integrate.trapezoid"),
    Rename("scipy", "1.14", "scipy.integrate.cumtrapz", "scipy.integrate.cumulative_trapezoid"),
    *(
        Rename("scipy", "1.13", f"scipy.signal.{each}", f"scipy.signal.windows.{each}")
        for each in ("blackman", "hamming", "hann", "gaussian", "bartlett", "tukey", "triang", "boxcar")
    ),
    Rename("scipy", "1.9", "scipy.linalg.pinv2", "scipy.linalg.pinv"),
)

KEYWORDS: tuple[Keyword, ...] = (
    Keyword("pandas", "3.0", ("pandas.PeriodIndex",), "year", "year", callee="PeriodIndex.from_fields"),
    Keyword(
        "matplotlib",
        "3.1",
        ("matplotlib.pyplot.axis", "matplotlib.axes.Axes.axis"),
        "aspect",
        "",
        differs="older releases took no notice of it",
    ),
    Keyword(
        "matplotlib", "3.1", ("matplotlib.pyplot.hist", "matplotlib.axes.Axes.hist"), "normed", "density"
    ),
    Keyword(
        "matplotlib", "3.1", ("matplotlib.pyplot.hist2d", "matplotlib.axes.Axes.hist2d"), "normed", "density"
    ),
    Keyword(
        "numpy",
        "1.24",
        ("numpy.histogram",),
        "normed",
        "density",
        differs="bins of unequal widths had other heights",
    ),
    Keyword("numpy", "1.24", ("numpy.histogram2d", "numpy.histogramdd"), "normed", "density"),
    Keyword("pandas", "0.23", ("pandas.Series.hist", "pandas.DataFrame.hist"), "normed", "density"),
    Keyword(
        "matplotlib",
        "2.2",
        (
            "matplotlib.pyplot.axes",
            "matplotlib.pyplot.subplot",
            "matplotlib.figure.Figure.add_subplot",
            "matplotlib.figure.Figure.add_axes",
        ),
        "axisbg",
        "facecolor",
    ),
    Keyword("matplotlib", "3.7", ("matplotlib.pyplot.grid", "matplotlib.axes.Axes.grid"), "b", "visible"),
    Keyword(
        "matplotlib",
        "3.8",
        ("matplotlib.pyplot.stem", "matplotlib.axes.Axes.stem"),
        "use_line_collection",
        None,
        values={"True": ""},
    ),
    Keyword(
        "matplotlib",
        "3.7",
        ("matplotlib.figure.Figure.gca",),
        "projection",
        "projection",
        callee="add_subplot",
    ),
    Keyword("matplotlib", "3.7", ("matplotlib.pyplot.gca",), "projection", "projection", callee="axes"),
    Keyword(
        "pandas",
        "3.0",
        ("pandas.DataFrame.fillna", "pandas.Series.fillna"),
        "method",
        None,
        values={"'ffill'": "ffill", "'pad'": "ffill", "'bfill'": "bfill", "'backfill'": "bfill"},
        callee="=",
    ),
    Keyword(
        "pandas",
        "2.0",
        ("pandas.read_csv", "pandas.read_table"),
        "error_bad_lines",
        "on_bad_lines",
        values={"False": '"warn"'},
    ),
    Keyword(
        "pandas",
        "3.0",
        ("pandas.read_csv", "pandas.read_table"),
        "delim_whitespace",
        "sep",
        values={"True": 'r"\\s+"'},
    ),
    Keyword("pandas", "3.0", ("pandas.read_csv", "pandas.to_datetime"), "infer_datetime_format", None),
    Keyword(
        "pandas",
        "2.0",
        ("pandas.DataFrame.to_csv", "pandas.Series.to_csv"),
        "line_terminator",
        "lineterminator",
    ),
    Keyword(
        "pandas",
        "1.0",
        ("pandas.pivot_table", "pandas.DataFrame.pivot_table", "pandas.crosstab"),
        "rows",
        "index",
    ),
    Keyword(
        "pandas",
        "1.0",
        ("pandas.pivot_table", "pandas.DataFrame.pivot_table", "pandas.crosstab"),
        "cols",
        "columns",
    ),
    Keyword("pandas", "0.25", ("pandas.read_excel",), "sheetname", "sheet_name"),
    Keyword("pandas", "0.25", ("pandas.read_excel",), "parse_cols", "usecols"),
    Keyword(
        "seaborn",
        "0.13",
        (
            "seaborn.catplot",
            "seaborn.FacetGrid",
            "seaborn.PairGrid",
            "seaborn.lmplot",
            "seaborn.jointplot",
            "seaborn.JointGrid",
        ),
        "size",
        "height",
    ),
    Keyword("sklearn", "1.4", ("sklearn.preprocessing.OneHotEncoder",), "sparse", "sparse_output"),
    Keyword(
        "sklearn",
        "1.4",
        ("sklearn.cluster.AgglomerativeClustering", "sklearn.cluster.FeatureAgglomeration"),
        "affinity",
        "metric",
    ),
    Keyword(
        "sklearn",
        "1.4",
        (
            "sklearn.ensemble.BaggingClassifier",
            "sklearn.ensemble.BaggingRegressor",
            "sklearn.ensemble.AdaBoostClassifier",
            "sklearn.ensemble.AdaBoostRegressor",
        ),
        "base_estimator",
        "estimator",
    ),
    Keyword("sklearn", "1.0", ("sklearn.cluster.KMeans",), "n_jobs", None),
    Keyword("sklearn", "1.0", ("sklearn.cluster.KMeans",), "precompute_distances", None),
    Keyword(
        "sklearn",
        "0.21",
        (
            "sklearn.linear_model.Perceptron",
            "sklearn.linear_model.SGDClassifier",
            "sklearn.linear_model.SGDRegressor",
        ),
        "n_iter",
        "max_iter",
        adds={"tol": "None"},
    ),
    Keyword(
        "sklearn",
        "0.24",
        ("sklearn.model_selection.GridSearchCV", "sklearn.model_selection.RandomizedSearchCV"),
        "iid",
        None,
        differs="scores are not weighted by the size of a fold any more",
    ),
)

_CATEGORICAL = ("x", "y", "hue", "data", "order", "hue_order")

POSITIONS: tuple[Positions, ...] = (
    Positions(
        "pandas",
        "2.0",
        ("pandas.DataFrame.drop", "pandas.Series.drop"),
        ("labels", "axis", "index", "columns", "level", "inplace"),
    ),
    Positions("pandas", "2.0", ("pandas.DataFrame.pivot",), ("index", "columns", "values")),
    Positions("pandas", "2.0", ("pandas.DataFrame.dropna",), ("axis", "how", "thresh", "subset", "inplace")),
    Positions("pandas", "2.0", ("pandas.DataFrame.set_index",), ("keys", "drop", "append", "inplace")),
    Positions("pandas", "2.0", ("pandas.DataFrame.sort_values",), ("by", "axis", "ascending", "inplace")),
    Positions("pandas", "2.0", ("pandas.DataFrame.reset_index",), ("level", "drop", "inplace")),
    Positions("pandas", "2.0", ("pandas.DataFrame.drop_duplicates",), ("subset", "keep", "inplace")),
    Positions("pandas", "2.0", ("pandas.concat",), ("objs", "axis", "join")),
    Positions("pandas", "2.0", ("pandas.read_csv", "pandas.read_table"), ("filepath_or_buffer", "sep")),
    Positions("pandas", "3.0", ("pandas.DataFrame.any", "pandas.DataFrame.all"), ("axis",)),
    Positions("pandas", "2.0", ("pandas.Series.str.split",), ("pat", "n", "expand")),
    Positions("pandas", "3.0", ("pandas.DataFrame.to_csv",), ("path_or_buf", "sep")),
    Positions(
        "seaborn",
        "0.13",
        (
            "seaborn.barplot",
            "seaborn.boxplot",
            "seaborn.countplot",
            "seaborn.pointplot",
            "seaborn.stripplot",
            "seaborn.swarmplot",
            "seaborn.violinplot",
            "seaborn.boxenplot",
        ),
        _CATEGORICAL,
    ),
    Positions("seaborn", "0.13", ("seaborn.catplot",), ("x", "y", "hue", "data", "row", "col")),
    Positions("seaborn", "0.12", ("seaborn.jointplot",), ("x", "y", "data", "kind")),
    Positions("seaborn", "0.12", ("seaborn.lmplot",), ("x", "y", "data", "hue", "col", "row")),
    Positions("seaborn", "0.12", ("seaborn.regplot", "seaborn.residplot"), ("x", "y", "data")),
    Positions("seaborn", "0.12", ("seaborn.scatterplot",), ("x", "y", "hue", "style", "size", "data")),
    Positions("seaborn", "0.12", ("seaborn.lineplot",), ("x", "y", "hue", "size", "style", "data")),
    Positions("seaborn", "0.12", ("seaborn.relplot",), ("x", "y", "hue", "size", "style", "data")),
    Positions("seaborn", "0.12", ("seaborn.kdeplot",), ("x", "y")),
    Positions("seaborn", "0.12", ("seaborn.FacetGrid",), ("data", "row", "col", "hue")),
    Positions("seaborn", "0.12", ("seaborn.pairplot", "seaborn.PairGrid"), ("data", "hue")),
    Positions("seaborn", "0.12", ("seaborn.heatmap",), ("data", "vmin", "vmax", "cmap")),
    Positions(
        "sklearn",
        "1.0",
        ("sklearn.datasets.make_blobs",),
        ("n_samples", "n_features", "centers", "cluster_std"),
    ),
    Positions(
        "sklearn", "1.0", ("sklearn.datasets.make_moons",), ("n_samples", "shuffle", "noise", "random_state")
    ),
    Positions(
        "sklearn",
        "1.0",
        ("sklearn.datasets.make_circles",),
        ("n_samples", "shuffle", "noise", "random_state", "factor"),
    ),
    Positions(
        "sklearn",
        "1.0",
        ("sklearn.neighbors.KNeighborsClassifier", "sklearn.neighbors.KNeighborsRegressor"),
        ("n_neighbors", "weights", "algorithm"),
    ),
    Positions("sklearn", "1.0", ("sklearn.decomposition.PCA",), ("n_components", "copy", "whiten")),
    Positions(
        "sklearn", "1.0", ("sklearn.model_selection.GridSearchCV",), ("estimator", "param_grid", "scoring")
    ),
    Positions(
        "sklearn",
        "1.0",
        ("sklearn.model_selection.cross_val_score",),
        ("estimator", "X", "y", "groups", "scoring", "cv"),
    ),
    Positions(
        "sklearn",
        "1.0",
        ("sklearn.model_selection.validation_curve",),
        ("estimator", "X", "y", "param_name", "param_range"),
    ),
    Positions(
        "sklearn",
        "1.0",
        ("sklearn.model_selection.KFold", "sklearn.model_selection.StratifiedKFold"),
        ("n_splits", "shuffle", "random_state"),
    ),
    Positions(
        "sklearn",
        "1.0",
        ("sklearn.preprocessing.PolynomialFeatures",),
        ("degree", "interaction_only", "include_bias"),
    ),
    Positions("sklearn", "1.0", ("sklearn.metrics.confusion_matrix",), ("y_true", "y_pred", "labels")),
    Positions("sklearn", "1.0", ("sklearn.manifold.Isomap",), ("n_neighbors", "n_components")),
    Positions("sklearn", "1.0", ("sklearn.cluster.KMeans",), ("n_clusters", "init", "n_init")),
)

_TREES = (
    "sklearn.tree.DecisionTreeRegressor",
    "sklearn.ensemble.RandomForestRegressor",
    "sklearn.ensemble.ExtraTreesRegressor",
)
_FORESTS = (
    "sklearn.ensemble.RandomForestClassifier",
    "sklearn.ensemble.ExtraTreesClassifier",
    "sklearn.tree.DecisionTreeClassifier",
)

VALUES: tuple[Value, ...] = (
    Value("sklearn", "1.2", _TREES, "criterion", "mse", '"squared_error"'),
    Value("sklearn", "1.2", _TREES, "criterion", "mae", '"absolute_error"'),
    Value("sklearn", "1.3", _FORESTS, "max_features", "auto", '"sqrt"'),
    Value("sklearn", "1.3", _TREES, "max_features", "auto", "1.0"),
    Value(
        "sklearn", "1.2", ("sklearn.linear_model.SGDRegressor",), "loss", "squared_loss", '"squared_error"'
    ),
    Value("sklearn", "1.3", ("sklearn.linear_model.SGDClassifier",), "loss", "log", '"log_loss"'),
    Value(
        "sklearn", "1.3", ("sklearn.ensemble.GradientBoostingClassifier",), "loss", "deviance", '"log_loss"'
    ),
    Value("sklearn", "1.2", ("sklearn.ensemble.GradientBoostingRegressor",), "loss", "ls", '"squared_error"'),
    Value(
        "sklearn", "1.2", ("sklearn.ensemble.GradientBoostingRegressor",), "loss", "lad", '"absolute_error"'
    ),
)

MODULES: tuple[Module, ...] = (
    Module(
        "sklearn",
        "0.24",
        "sklearn.datasets.samples_generator",
        "sklearn.datasets",
        (
            "make_blobs",
            "make_moons",
            "make_circles",
            "make_classification",
            "make_regression",
            "make_swiss_roll",
        ),
    ),
    Module("sklearn", "0.24", "sklearn.metrics.scorer", "sklearn.metrics", ("make_scorer",)),
    Module("sklearn", "0.24", "sklearn.neighbors.kde", "sklearn.neighbors", ("KernelDensity",)),
    Module("sklearn", "0.24", "sklearn.tree.tree", "sklearn.tree", ("DecisionTreeClassifier",)),
    Module("sklearn", "0.24", "sklearn.ensemble.forest", "sklearn.ensemble", ("RandomForestClassifier",)),
    Module(
        "sklearn", "0.24", "sklearn.linear_model.logistic", "sklearn.linear_model", ("LogisticRegression",)
    ),
    Module(
        "matplotlib", "3.8", "mpl_toolkits.axes_grid", "mpl_toolkits.axes_grid1", ("make_axes_locatable",)
    ),
)
