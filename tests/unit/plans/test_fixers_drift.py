from __future__ import annotations

from typing import Any

import pytest

from cellwright.engine.introspection import Diagnosis, Raised, Signature
from cellwright.plans import Failure, Proposal
from cellwright.plans.fixers import propose
from tests.support.plans.handmade import MODULES, mended, span_of, suggested

VERSIONS = {
    "matplotlib": "3.11.2",
    "numpy": "2.4.6",
    "pandas": "3.1.1",
    "seaborn": "0.13.2",
    "sklearn": "1.9.1",
}
STYLES = ("bmh", "ggplot", "seaborn-v0_8", "seaborn-v0_8-white", "seaborn-v0_8-whitegrid")


def drifted(
    source: str, error_type: str, message: str, at: str, *, cause: Raised | None = None, **facts: Any
) -> Proposal | None:
    """A failure of code for older libraries, as a kernel that has new ones tells it."""
    details = facts.pop("details", {})
    raised = Raised(error_type, message, details=details, span=span_of(source, at))
    facts = {"versions": VERSIONS, "modules": MODULES, "names": ("plt", "pd", "np", "sns"), **facts}
    diagnosis = Diagnosis((cause or raised,), raised, **facts)
    return propose(Failure(source, "error", error_type, message, diagnosis=diagnosis))


# Values ------------------------------------------------------------------------------------------------------------


def no_style(source: str, name: str, **facts: Any) -> Proposal | None:
    message = (
        f"'{name}' is not a valid package style, path of style file, URL of style file, or library style name"
        " (library styles are listed in `style.available`)"
    )
    cause = Raised(
        "FileNotFoundError", f"[Errno 2] No such file or directory: {name!r}", details={"filename": name}
    )
    at = facts.pop("at", source)
    return drifted(source, "OSError", message, at, cause=cause, choices={"matplotlib.style": STYLES}, **facts)


def test_a_style_that_matplotlib_renamed_is_called_so() -> None:
    found = no_style("plt.style.use('seaborn-whitegrid')  # grid", "seaborn-whitegrid")
    assert mended(found) == "plt.style.use('seaborn-v0_8-whitegrid')  # grid"
    assert mended(no_style('plt.style.use("seaborn")', "seaborn")) == 'plt.style.use("seaborn-v0_8")'


def test_a_style_that_is_not_there_is_no_missing_file() -> None:
    for name in ("seaborn-nothing", "seaborns", "my-style"):
        said = suggested(no_style(f"plt.style.use('{name}')", name))
        assert said.startswith("matplotlib has n")
        assert "file" not in said


def test_before_the_release_that_renamed_it_a_name_is_left_alone() -> None:
    versions = {**VERSIONS, "matplotlib": "3.5.0"}
    found = no_style("plt.style.use('seaborn-whitegrid')", "seaborn-whitegrid", versions=versions)
    assert found is not None
    assert not found.applies


def test_a_colour_map_is_renamed_by_the_table_and_only_proposed_by_its_spelling() -> None:
    said = "'{}' is not a valid value for cmap; supported values are 'Accent', 'Blues', 'nipy_spectral'"
    source = "plt.imshow(a, cmap='spectral')"
    found = drifted(source, "ValueError", said.format("spectral"), source)
    assert mended(found) == "plt.imshow(a, cmap='nipy_spectral')"
    near = "'spectral' is not a valid value for name. Did you mean one of: 'Spectral', 'nipy_spectral'?"
    source = "c = plt.get_cmap('spectral', 10)"
    assert mended(drifted(source, "ValueError", near, source)) == "c = plt.get_cmap('nipy_spectral', 10)"
    source = "plt.imshow(a, cmap='blues')"
    assert "`Blues`" in suggested(drifted(source, "ValueError", said.format("blues"), source))


def test_letters_that_also_name_something_else_are_no_style_and_no_colour_map_for_sure() -> None:
    source = "x = df['seaborn']\nset_up()"
    for at, expected in (("set_up()", False), ("plt.style.use(['seaborn', 'bmh'])", True)):
        found = no_style(f"{source}\n{at}" if expected else source, "seaborn", at=at)
        assert found is not None
        assert found.applies is expected
    said = "'spectral' is not a valid value for cmap; supported values are 'Blues', 'nipy_spectral'"
    source = "kind = 'spectral'\nshow(kind)"
    assert "`nipy_spectral`" in suggested(drifted(source, "ValueError", said, "show(kind)"))
    source = "c = matplotlib.colormaps['spectral']"
    found = drifted(source, "KeyError", "\"'spectral' is not a known colormap name\"", source)
    assert mended(found) == "c = matplotlib.colormaps['nipy_spectral']"


@pytest.mark.parametrize(
    ("source", "said", "expected"),
    [
        (
            "x = pd.date_range(a, periods=8, freq='H')",
            "H. Did you mean h?",
            "x = pd.date_range(a, periods=8, freq='h')",
        ),
        ("df.resample('M').mean()", "M. Did you mean ME?", "df.resample('ME').mean()"),
        ("df.resample('2H30T').sum()", "2H30T. Failed to parse", "df.resample('2h30min').sum()"),
        ("df.asfreq('A-JAN')", "A-JAN. Did you mean YE-JAN?", "df.asfreq('YE-JAN')"),
        ("pd.Period('2015', freq='A')", "A. Did you mean Y?", "pd.Period('2015', freq='Y')"),
        ("pd.period_range(a, b, freq='2A')", "2A. Failed", "pd.period_range(a, b, freq='2Y')"),
    ],
)
def test_a_frequency_is_spelt_as_pandas_does_now(source: str, said: str, expected: str) -> None:
    assert mended(drifted(source, "ValueError", f"Invalid frequency: {said}", source)) == expected


def test_a_frequency_whose_letters_also_name_something_else_is_only_proposed() -> None:
    source = "df.groupby('M').resample('M').sum()"
    said = suggested(drifted(source, "ValueError", "Invalid frequency: M. Did you mean ME?", source))
    assert said == "pandas spells the frequency `M` `ME` now."


def test_a_frequency_that_never_was_one_is_left_alone() -> None:
    assert drifted("df.resample('XX')", "ValueError", "Invalid frequency: XX", "df.resample('XX')") is None


def test_a_value_that_scikit_learn_spells_otherwise_is_spelt_so() -> None:
    source = "m = RandomForestClassifier(10, max_features='auto')\nm.fit(X, y)"
    message = (
        "The 'max_features' parameter of RandomForestClassifier must be an int in the range [1, inf), a float in the"
        " range (0.0, 1.0], a str among {'sqrt', 'log2'} or None. Got 'auto' instead."
    )
    found = drifted(source, "InvalidParameterError", message, "m.fit(X, y)")
    assert mended(found) == 'm = RandomForestClassifier(10, max_features="sqrt")\nm.fit(X, y)'


def test_a_parameter_that_an_estimator_has_no_more_is_told_with_those_it_has() -> None:
    message = "Invalid parameter 'normalize' for estimator LinearRegression(). Valid parameters are: ['copy_X', 'tol']."
    said = suggested(drifted("grid.fit(X, y)", "ValueError", message, "grid.fit(X, y)"))
    assert said == "`LinearRegression` has no parameter `normalize`; it has copy_X, tol."


# Names -------------------------------------------------------------------------------------------------------------


def gone(source: str, at: str, module: str, **facts: Any) -> Proposal | None:
    name = at.rpartition(".")[2]
    details = {"name": name, "obj_type": "module"}
    message = f"module '{module}' has no attribute '{name}'"
    return drifted(source, "AttributeError", message, at, details=details, **facts)


@pytest.mark.parametrize(
    ("source", "at", "module", "expected"),
    [
        (
            "c = plt.cm.get_cmap('Blues', 6)",
            "plt.cm.get_cmap",
            "matplotlib.cm",
            "c = plt.get_cmap('Blues', 6)",
        ),
        ("c = cm.get_cmap('Blues')", "cm.get_cmap", "matplotlib.cm", "c = plt.get_cmap('Blues')"),
        ("c = plt.cm.spectral", "plt.cm.spectral", "matplotlib.cm", "c = plt.cm.nipy_spectral"),
        ("m = pd.rolling_mean(s, 3)", "pd.rolling_mean", "pandas", "m = s.rolling(3).mean()"),
        (
            "m = pd.rolling_count(s, 3)",
            "pd.rolling_count",
            "pandas",
            "m = s.rolling(3, min_periods=0).count()",
        ),
        (
            "x = cm.register_cmap('mine', c)",
            "cm.register_cmap",
            "matplotlib.cm",
            "import matplotlib\nx = matplotlib.colormaps.register(name='mine', cmap=c)",
        ),
        ("m = pd.rolling_std(a + b, window=3)", "pd.rolling_std", "pandas", "m = (a + b).rolling(3).std()"),
        (
            "sns.factorplot('day', 'tip', data=tips, size=4)",
            "sns.factorplot",
            "seaborn",
            "sns.catplot(x='day', y='tip', data=tips, height=4, kind=\"point\")",
        ),
        (
            "sns.factorplot('day', data=tips, kind='count')",
            "sns.factorplot",
            "seaborn",
            "sns.catplot(x='day', data=tips, kind='count')",
        ),
        (
            "g = df.groupby(pd.TimeGrouper('D'))",
            "pd.TimeGrouper",
            "pandas",
            "g = df.groupby(pd.Grouper(freq='D'))",
        ),
        (
            "t = pd.datetime(2012, 7, 4)",
            "pd.datetime",
            "pandas",
            "import datetime\nt = datetime.datetime(2012, 7, 4)",
        ),
        (
            "y = mlab.normpdf(x, 0, 1)",
            "mlab.normpdf",
            "matplotlib.mlab",
            "import scipy.stats\ny = scipy.stats.norm.pdf(x, 0, 1)",
        ),
    ],
)
def test_what_a_library_has_elsewhere_is_called_there(
    source: str, at: str, module: str, expected: str
) -> None:
    assert mended(gone(source, at, module)) == expected


@pytest.mark.parametrize(
    ("source", "at", "module"),
    [
        ("m = pd.rolling_mean(s, 3, min_periods=1)", "pd.rolling_mean", "pandas"),
        ("sns.factorplot(*args)", "sns.factorplot", "seaborn"),
        ("t = pd.datetime(2012, datetime, 4)", "pd.datetime", "pandas"),
    ],
)
def test_what_cannot_be_written_surely_is_only_told(source: str, at: str, module: str) -> None:
    said = suggested(gone(source, at, module, names=("pd", "sns", "datetime")))
    assert "is gone since" in said or "use" in said


def test_what_a_function_of_another_cell_asks_for_is_told_and_not_looked_for_here() -> None:
    details = {"name": "get_cmap", "obj_type": "module"}
    message = "module 'matplotlib.cm' has no attribute 'get_cmap'"
    said = suggested(drifted("view('jet')", "AttributeError", message, "view('jet')", details=details))
    assert "`matplotlib.pyplot.get_cmap`" in said
    assert "not in this cell" in said


def test_a_method_is_renamed_on_the_library_s_class_only() -> None:
    message = "'CountVectorizer' object has no attribute 'get_feature_names'"
    source = "names = vec.get_feature_names()"
    for kind, applies in (
        ("sklearn.feature_extraction.text.CountVectorizer", True),
        ("__main__.CountVectorizer", False),
    ):
        details = {"name": "get_feature_names", "obj_type": kind}
        found = drifted(source, "AttributeError", message, "vec.get_feature_names", details=details)
        assert (found is not None and found.source == "names = list(vec.get_feature_names_out())") is applies


def test_what_gave_another_type_or_other_names_is_not_done_for_sure() -> None:
    message = "'{}' object has no attribute 'get_feature_names'"
    for kind, source, expected in (
        ("feature_extraction.DictVectorizer", "n = list(v.get_feature_names())", True),
        ("feature_extraction.DictVectorizer", "n = v.get_feature_names", False),
        ("preprocessing.PolynomialFeatures", "n = v.get_feature_names()", False),
        ("preprocessing.OneHotEncoder", "n = v.get_feature_names()", False),
    ):
        details = {"name": "get_feature_names", "obj_type": f"sklearn.{kind}"}
        said = message.format(kind.rpartition(".")[2])
        found = drifted(source, "AttributeError", said, "v.get_feature_names", details=details)
        assert found is not None
        assert found.applies is expected
        assert not expected or found.source == "n = list(v.get_feature_names_out())"


def no_import(source: str, message: str) -> Proposal | None:
    return drifted(source, "ImportError", message, source.splitlines()[0])


def test_an_import_follows_what_moved_and_its_calls_keep_what_they_meant() -> None:
    source = "from sklearn.decomposition import RandomizedPCA\np = RandomizedPCA(5).fit(X)"
    found = no_import(source, "cannot import name 'RandomizedPCA' from 'sklearn.decomposition' (/x.py)")
    assert mended(found) == (
        "from sklearn.decomposition import PCA as RandomizedPCA\n"
        'p = RandomizedPCA(n_components=5, svd_solver="randomized").fit(X)'
    )
    source = "from sklearn.preprocessing import Imputer\nimp = Imputer(strategy='mean')"
    message = "cannot import name 'Imputer' from 'sklearn.preprocessing' (/x.py)"
    expected = "from sklearn.impute import SimpleImputer as Imputer\nimp = Imputer(strategy='mean')"
    assert mended(no_import(source, message)) == expected
    source = "from sklearn.datasets.samples_generator import make_blobs\nX, y = make_blobs()"
    found = drifted(
        source,
        "ModuleNotFoundError",
        "No module named 'sklearn.datasets.samples_generator'",
        source.splitlines()[0],
    )
    assert mended(found) == "from sklearn.datasets import make_blobs\nX, y = make_blobs()"


@pytest.mark.parametrize(
    ("source", "name", "module"),
    [
        (
            "from sklearn.preprocessing import Imputer\nimp = Imputer(axis=1)",
            "Imputer",
            "sklearn.preprocessing",
        ),
        ("from sklearn.preprocessing import Imputer", "Imputer", "sklearn.preprocessing"),
        ("from sklearn.mixture import GMM\ng = GMM(4)", "GMM", "sklearn.mixture"),
        ("from sklearn.datasets import fetch_mldata\nfetch_mldata('a')", "fetch_mldata", "sklearn.datasets"),
    ],
)
def test_an_import_of_what_takes_other_arguments_now_is_only_proposed(
    source: str, name: str, module: str
) -> None:
    said = suggested(no_import(source, f"cannot import name '{name}' from '{module}' (/x.py)"))
    assert f"`{module}.{name}` is gone" in said


# Arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "at", "said", "expected"),
    [
        (
            "plt.hist(x, normed=True)",
            "plt.hist(x, normed=True)",
            "Rectangle.set",
            "plt.hist(x, density=True)",
        ),
        (
            "k = dict(bins=3, normed=True)\nplt.hist(x, **k)",
            "plt.hist(x, **k)",
            "Polygon.set",
            "k = dict(bins=3, density=True)\nplt.hist(x, **k)",
        ),
        (
            "df.fillna(method='ffill', axis=1)",
            "df.fillna(method='ffill', axis=1)",
            "NDFrame.fillna",
            "df.ffill(axis=1)",
        ),
        (
            "e = OneHotEncoder(sparse=False)",
            "OneHotEncoder(sparse=False)",
            "OneHotEncoder.__init__",
            "e = OneHotEncoder(sparse_output=False)",
        ),
        (
            "a = fig.gca(projection='3d')",
            "fig.gca(projection='3d')",
            "FigureBase.gca",
            "a = fig.add_subplot(projection='3d')",
        ),
        (
            "pd.read_csv(f, delim_whitespace=True)",
            "pd.read_csv(f, delim_whitespace=True)",
            "read_csv",
            'pd.read_csv(f, sep=r"\\s+")',
        ),
        (
            "i = pd.PeriodIndex(year=y, quarter=q)",
            "pd.PeriodIndex(year=y, quarter=q)",
            "PeriodIndex.__new__",
            "i = pd.PeriodIndex.from_fields(year=y, quarter=q)",
        ),
        (
            "g = sns.FacetGrid(t, size=3)",
            "sns.FacetGrid(t, size=3)",
            "FacetGrid.__init__",
            "g = sns.FacetGrid(t, height=3)",
        ),
        (
            "m = Perceptron(n_iter=40, eta0=0.1)",
            "Perceptron(n_iter=40, eta0=0.1)",
            "Perceptron.__init__",
            "m = Perceptron(max_iter=40, tol=None, eta0=0.1)",
        ),
        (
            "pd.read_csv(f, error_bad_lines=False)",
            "pd.read_csv(f, error_bad_lines=False)",
            "read_csv",
            'pd.read_csv(f, on_bad_lines="warn")',
        ),
        (
            "plt.stem(x, use_line_collection=True)",
            "plt.stem(x, use_line_collection=True)",
            "stem",
            "plt.stem(x)",
        ),
    ],
)
def test_a_keyword_that_a_library_calls_otherwise_is_called_so(
    source: str, at: str, said: str, expected: str
) -> None:
    olds = ("normed", "method", "sparse", "projection", "delim_whitespace", "size", "year")
    more = ("n_iter", "error_bad_lines", "use_line_collection")
    name = next(each for each in (*olds, *more) if f"{each}=" in source)
    found = drifted(source, "TypeError", f"{said}() got an unexpected keyword argument '{name}'", at)
    assert mended(found) == expected


@pytest.mark.parametrize(
    "source",
    [
        "draw(x, normed=True)",
        "plt.hist(x, density=True, normed=True)",
        "pd.read_csv(f, delim_whitespace=flag)",
        "np.histogram(x, bins, normed=True)",
        "plt.stem(x, use_line_collection=False)",
        "Perceptron(n_iter=40, tol=0.1)",
    ],
)
def test_a_keyword_of_something_else_or_beside_its_new_name_stays(source: str) -> None:
    name = next(
        each
        for each in ("delim_whitespace", "normed", "use_line_collection", "n_iter")
        if f"{each}=" in source
    )
    found = drifted(source, "TypeError", f"f() got an unexpected keyword argument '{name}'", source)
    assert found is None or not found.applies


def test_where_no_row_knows_a_keyword_the_installed_signature_is_told() -> None:
    source = "sns.lineplot(d, colour='r')"
    known = {"sns.lineplot": Signature(("data",), ("data", "x", "y", "color"))}
    message = "lineplot() got an unexpected keyword argument 'colour'"
    said = suggested(drifted(source, "TypeError", message, source, signatures=known))
    assert "data, x, y, color" in said


@pytest.mark.parametrize(
    ("source", "said", "signature", "expected"),
    [
        (
            "sns.jointplot('x', 'y', data, kind='kde')",
            "jointplot() takes from 0 to 1 positional arguments but 3 positional arguments (and 1 keyword-only) were given",
            Signature(("data",), ("data", "x", "y", "kind")),
            "sns.jointplot(x='x', y='y', data=data, kind='kde')",
        ),
        (
            "sns.violinplot('g', 's', data=d)",
            "violinplot() got multiple values for argument 'data'",
            Signature(("data",), ("data", "x", "y", "hue", "order", "hue_order")),
            "sns.violinplot(x='g', y='s', data=d)",
        ),
        (
            "df.drop('a', 1)",
            "DataFrame.drop() takes from 1 to 2 positional arguments but 3 were given",
            Signature(("labels",), ("labels", "axis", "index", "columns", "level", "inplace", "errors")),
            "df.drop('a', axis=1)",
        ),
        (
            "df.pivot('day', 'region', 'units')",
            "DataFrame.pivot() takes 1 positional argument but 4 were given",
            Signature((), ("columns", "index", "values")),
            "df.pivot(index='day', columns='region', values='units')",
        ),
        (
            "p = PCA(2, True)",
            "PCA.__init__() takes from 1 to 2 positional arguments but 3 were given",
            Signature(("n_components",), ("n_components", "copy", "whiten")),
            "p = PCA(2, copy=True)",
        ),
    ],
)
def test_arguments_that_must_be_named_get_the_names_that_their_places_had(
    source: str, said: str, signature: Signature, expected: str
) -> None:
    function = source.split("(", maxsplit=1)[0].rpartition("= ")[2]
    at = source.rpartition("= PCA")[2] and source[source.index(function) :]
    assert mended(drifted(source, "TypeError", said, at, signatures={function: signature})) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("sns.scatterplot(df, 'a', 'b')", ["sns.scatterplot(data=df, x='a', y='b')"]),
        ("sns.scatterplot(df.dropna(), 'a')", ["sns.scatterplot(data=df.dropna(), x='a')"]),
        ("sns.scatterplot(u, v)", ["sns.scatterplot(x=u, y=v)", "sns.scatterplot(data=u, x=v)"]),
    ],
)
def test_where_another_argument_is_the_first_now_the_old_order_is_not_taken_for_sure(
    source: str, expected: list[str]
) -> None:
    message = "scatterplot() takes from 0 to 1 positional arguments but 3 were given"
    known = Signature(("data",), ("data", "x", "y", "hue", "size", "style"))
    for signatures in ({"sns.scatterplot": known}, {}):
        found = drifted(source, "TypeError", message, source, signatures=signatures)
        assert found is not None
        assert not found.applies
        assert [found.source, *found.alternatives] == expected


def test_the_old_order_is_sure_where_a_column_comes_first_or_the_data_are_named() -> None:
    message = "scatterplot() takes from 0 to 1 positional arguments but 2 were given"
    known = {"sns.scatterplot": Signature(("data",), ("data", "x", "y", "hue", "size", "style"))}
    for given, expected in (("'a', v", "x='a', y=v"), ("u, v, data=df", "x=u, y=v, data=df")):
        source = f"sns.scatterplot({given})"
        found = drifted(source, "TypeError", message, source, signatures=known)
        assert mended(found) == f"sns.scatterplot({expected})"


def test_a_call_that_a_library_binds_itself_is_found_by_its_place() -> None:
    source = "a, b = validation_curve(model, X, y, 'degree', degree, cv=7)"
    known = Signature(("estimator", "X", "y"), ("estimator", "X", "y", "param_name", "param_range", "cv"))
    at = source.removeprefix("a, b = ")
    found = drifted(
        source, "TypeError", "too many positional arguments", at, signatures={"validation_curve": known}
    )
    assert (
        mended(found) == "a, b = validation_curve(model, X, y, param_name='degree', param_range=degree, cv=7)"
    )


def test_places_that_no_row_knows_are_proposed_by_the_installed_order_only() -> None:
    source = "lib.area(1, 2)"
    known = {"lib.area": Signature(("a",), ("a", "b"))}
    message = "area() takes 1 positional argument but 2 were given"
    found = drifted(source, "TypeError", message, source, signatures=known)
    assert suggested(found).startswith("`area` takes by position only (a)")
    assert found is not None
    assert found.source == "lib.area(1, b=2)"


def test_a_callable_of_one_s_own_that_has_a_library_s_name_is_not_taken_for_it() -> None:
    source = "drop('a', 1)"
    known = {"drop": Signature(("what",), ("what",))}
    message = "drop() takes 1 positional argument but 2 were given"
    found = drifted(source, "TypeError", message, source, signatures=known)
    assert found is None or not found.applies
