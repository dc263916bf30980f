from __future__ import annotations

import pytest

from cellwright.plans import Proposal
from cellwright.plans.failures import Elsewhere
from cellwright.plans.fixers import propose
from tests.support.plans.handmade import failed, mended, suggested, undefined


@pytest.mark.parametrize(
    ("source", "name", "line"),
    [
        ("x = pd.DataFrame()", "pd", "import pandas as pd"),
        ("np.ones(3)", "np", "import numpy as np"),
        ("plt.plot([1])", "plt", "import matplotlib.pyplot as plt"),
        ("x = math.pi", "math", "import math"),
        ("Path('a')", "Path", "from pathlib import Path"),
        ("d = defaultdict(list)", "defaultdict", "from collections import defaultdict"),
        ("datetime.now()", "datetime", "from datetime import datetime"),
        ("datetime(2024, 1, 1)", "datetime", "from datetime import datetime"),
        ("datetime.datetime.now()", "datetime", "import datetime"),
        ("glob('*.csv')", "glob", "from glob import glob"),
        ("glob.glob('*.csv')", "glob", "import glob"),
        ("time.sleep(1)", "time", "import time"),
        ("xml.etree.ElementTree.parse('a')", "xml", "import xml.etree.ElementTree"),
        ("StandardScaler()", "StandardScaler", "from sklearn.preprocessing import StandardScaler"),
    ],
)
def test_a_name_that_everybody_imports_the_same_way_is_imported(source: str, name: str, line: str) -> None:
    assert mended(propose(undefined(source, name))) == f"{line}\n{source}"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("y = sqrt(4)", "sqrt"),  # of math, or of numpy
        ("y = pd + 1", "pd"),  # used as no module is
        ("y = time.hour", "time"),  # nothing that the module has
        ("y = string.split()", "string"),
        ("y = datetime.now() - datetime.timedelta(1)", "datetime"),  # the class and the module
        ("pl.plot([1])", "pl"),  # pylab's, not polars'
        ("y = product([1], [2])", "product"),
    ],
)
def test_an_import_that_may_be_another_is_only_suggested(source: str, name: str) -> None:
    modules = ("datetime", "math", "numpy", "pandas", "time", "string", "polars", "itertools")
    assert name in suggested(propose(undefined(source, name, modules=modules)))


def test_an_import_goes_after_docstring_future_imports_comments_and_magics() -> None:
    source = '%load_ext thing\n"""What it does."""\n# why\nfrom __future__ import annotations\n\n@wraps(g)\ndef f(): ...\n'
    expected = source.replace("@wraps", "from functools import wraps\n@wraps")
    assert mended(propose(undefined(source, "wraps"))) == expected


def test_everything_that_is_missing_is_imported_at_once() -> None:
    source = "x = pd.Series(np.ones(3))\ny = Path('a')\nz = unknown(x)"
    expected = f"import pandas as pd\nimport numpy as np\nfrom pathlib import Path\n{source}"
    assert mended(propose(undefined(source, "pd", names=("unknown",)))) == expected
    assert mended(propose(undefined(source, "pd", names=("np", "Path")))) == f"import pandas as pd\n{source}"
    own = "x = pd.Series([math.pi])\nmath = 3"
    assert mended(propose(undefined(own, "pd"))) == f"import pandas as pd\n{own}"


def test_a_name_that_the_cell_itself_defines_later_is_not_imported() -> None:
    assert "before the cell itself" in suggested(propose(undefined("print(json)\njson = 3", "json")))
    assert "before the cell itself" in suggested(propose(undefined("math.pi\nmath = 3", "math")))


def test_a_module_that_is_not_there_is_installed_if_it_is_approved() -> None:
    failure = undefined("sns.set_theme()", "sns", approved=("seaborn",))
    found = propose(failure)
    assert mended(found) == "import seaborn as sns\nsns.set_theme()"
    assert found is not None
    assert found.packages == ("seaborn",)
    assert "approved list" in suggested(propose(undefined("sns.set_theme()", "sns")))


@pytest.mark.parametrize(
    ("source", "name", "expected"),
    [
        ("x = [true, true, 'true']", "true", "x = [True, True, 'true']"),
        ("x = null", "null", "x = None"),
        ("for i in xrange(3): pass", "xrange", "for i in range(3): pass"),
        ("isinstance(x, unicode)", "unicode", "isinstance(x, str)"),
        ("x = {'a': true, 'b': false, 'c': null}", "true", "x = {'a': True, 'b': False, 'c': None}"),
    ],
)
def test_words_of_other_languages_become_pythons(source: str, name: str, expected: str) -> None:
    assert mended(propose(undefined(source, name))) == expected


def test_words_of_other_languages_stay_where_somebody_defines_or_shadows_them() -> None:
    suggested(propose(undefined("print(null)\nnull = 3", "null")))
    step = Elsewhere(4, "make it", "pending")
    suggested(propose(undefined("print(null)", "null", elsewhere={"null": step})))
    assert propose(undefined("isinstance(x, unicode)", "unicode", names=("str",))) is None
    assert "may be meant" in suggested(propose(undefined("x = undefined", "undefined")))


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("totl_price", "total_price"),
        ("summray", "summary"),
        ("customer_name", "customerName"),
        ("MAX_SIZE", "max_size"),
        ("categry", "category"),
    ],
)
def test_a_slip_of_the_only_name_near_is_mended_wherever_it_is_used(name: str, known: str) -> None:
    source = f"a = ({name})  # {name}\nb = f'{{{name}}} {name}'\ndef g():\n    return {name}"
    found = propose(undefined(source, name, names=(known, "something_else")))
    assert mended(found) == (
        f"a = ({known})  # {name}\nb = f'{{{known}}} {name}'\ndef g():\n    return {known}"
    )


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("totl", ("total", "tote")),  # two are near
        ("x_train", ("y_train",)),  # another thing of the same kind
        ("sales_2023", ("sales_2024",)),
        ("df2", ("df1",)),
        ("rows", ("row",)),
        ("date", ("data",)),
        ("county", ("country",)),
        ("Model", ("model",)),  # a class, and one of it
        ("left", ("lift",)),
        ("inptu", ()),  # would ask a person
        ("dict_", ()),
        ("scaled", ("scaler",)),
        ("loaded", ("loader",)),
    ],
)
def test_a_name_that_may_be_a_thing_of_its_own_is_only_suggested(name: str, known: tuple[str, ...]) -> None:
    found = propose(undefined(f"x = {name}()", name, names=known))
    assert found is None or not found.applies


def test_a_builtin_is_meant_only_where_it_is_called() -> None:
    assert mended(propose(undefined("pritn(1)", "pritn"))) == "print(1)"
    assert mended(propose(undefined("raise ValueErorr()", "ValueErorr"))) == "raise ValueError()"
    suggested(propose(undefined("x = len(inter)", "inter")))


def test_two_names_in_one_statement_are_two_things() -> None:
    suggested(propose(undefined("x = price_total - price_totl", "price_totl", names=("price_total",))))
    assert (
        mended(propose(undefined("x = 1 - price_totl", "price_totl", names=("price_total",))))
        == "x = 1 - price_total"
    )


def test_a_name_that_the_cell_binds_or_deletes_is_not_renamed() -> None:
    for source in (
        "sumary = sumary + 1",
        "del sumary",
        "for sumary in sumary: pass",
        "f = lambda sumary: 1\nsumary",
    ):
        found = propose(undefined(source, "sumary", names=("summary",)))
        assert found is not None
        assert not found.applies, source


def test_what_is_changed_in_place_counts_as_used() -> None:
    assert mended(propose(undefined("sumary += 1", "sumary", names=("summary",)))) == "summary += 1"


def test_a_name_of_another_step_is_pointed_to_and_not_guessed() -> None:
    step = Elsewhere(2, "clean the data", "skipped")
    failure = undefined("x = clean_data", "clean_data", names=("clean_dat",), elsewhere={"clean_data": step})
    assert "step 2 (clean the data), which is skipped" in suggested(propose(failure))
    own_class = undefined("Pipeline()", "Pipeline", elsewhere={"Pipeline": step})
    suggested(propose(own_class))
    mended(propose(undefined("pd.Series()", "pd", elsewhere={"pd": step})))


def test_a_name_missing_in_another_cells_function_is_left_alone() -> None:
    assert propose(undefined("f(1)", "np", names=("f",))) is None


# Imports -----------------------------------------------------------------------------------------------------------


def no_module(source: str, module: str, **options: object) -> Proposal | None:
    message = f"No module named '{module}'"
    return propose(failed(source, "ModuleNotFoundError", message, details={"name": module}, **options))  # type: ignore[arg-type]


def no_member(source: str, module: str, name: str, **options: object) -> Proposal | None:
    message = f"cannot import name '{name}' from '{module}' (somewhere)"
    return propose(failed(source, "ImportError", message, details={"name": module}, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "module", "expected"),
    [
        ("import cPickle", "cPickle", "import pickle as cPickle"),
        ("import cPickle as p, os", "cPickle", "import pickle as p, os"),
        ("import Queue\nQueue.Queue()", "Queue", "import queue as Queue\nQueue.Queue()"),
        ("from StringIO import StringIO", "StringIO", "from io import StringIO"),
        (
            "from sklearn.cross_validation import train_test_split as split",
            "sklearn.cross_validation",
            "from sklearn.model_selection import train_test_split as split",
        ),
        ("import urllib2", "urllib2", "import urllib.request as urllib2"),
        (
            "from urllib2 import urlopen, HTTPError",
            "urllib2",
            "from urllib.request import urlopen\nfrom urllib.error import HTTPError",
        ),
    ],
)
def test_a_module_that_moved_is_imported_from_where_it_is(source: str, module: str, expected: str) -> None:
    assert mended(no_module(source, module)) == expected


@pytest.mark.parametrize(
    ("source", "module", "name", "expected"),
    [
        ("from collections import Mapping", "collections", "Mapping", "from collections.abc import Mapping"),
        (
            "if 1:\n    from collections import Mapping, deque",
            "collections",
            "Mapping",
            "if 1:\n    from collections.abc import Mapping\n    from collections import deque",
        ),
        (
            "from collections import (\n    deque,  # fast\n    Mapping as M,\n)",
            "collections",
            "Mapping",
            "from collections.abc import Mapping as M\nfrom collections import (\n    deque,  # fast\n)",
        ),
        (
            "from collections import deque, Mapping, Set  # why",
            "collections",
            "Mapping",
            "from collections.abc import Mapping\nfrom collections.abc import Set\nfrom collections import deque  # why",
        ),
        ("from urllib import urlencode", "urllib", "urlencode", "from urllib.parse import urlencode"),
        ("from string import letters", "string", "letters", "from string import ascii_letters as letters"),
        ("from scipy.misc import comb", "scipy.misc", "comb", "from scipy.special import comb"),
        ("from sklearn.externals import joblib", "sklearn.externals", "joblib", "import joblib"),
    ],
)
def test_a_name_that_moved_is_imported_from_where_it_is(
    source: str, module: str, name: str, expected: str
) -> None:
    assert mended(no_member(source, module, name)) == expected


def test_what_changed_on_its_way_is_only_suggested() -> None:
    assert "KFold" in suggested(
        no_module("from sklearn.cross_validation import KFold", "sklearn.cross_validation")
    )
    assert "SimpleImputer" in suggested(
        no_member("from sklearn.preprocessing import Imputer", "sklearn.preprocessing", "Imputer")
    )
    assert "zip" in suggested(no_member("from itertools import izip", "itertools", "izip"))


@pytest.mark.parametrize(
    ("source", "module", "expected"),
    [
        ("import pandsa as pd", "pandsa", "import pandas as pd"),
        ("import numpi\nnumpi.ones(1)", "numpi", "import numpy\nnumpy.ones(1)"),
        ("import Numpy as np", "Numpy", "import numpy as np"),
        ("import panda as pd", "panda", "import pandas as pd"),
        ("import scikit_learn", "scikit_learn", "import sklearn"),
        ("from pandsa.api import types", "pandsa", "from pandas.api import types"),
    ],
)
def test_a_misspelt_module_is_the_only_known_one_near_it(source: str, module: str, expected: str) -> None:
    assert mended(no_module(source, module)) == expected


@pytest.mark.parametrize("module", ["scapy", "dash", "panda", "requestz"])
def test_a_module_that_may_be_another_is_not_renamed(module: str) -> None:
    found = no_module(f"import {module}", module, modules=("scipy", "dask", "pandas", "json"))
    assert found is None or not found.applies


def test_a_misspelt_member_of_a_module_is_the_only_one_near_it() -> None:
    members = {"collections": ("Counter", "defaultdict", "deque")}
    found = no_member(
        "from collections import defualtdict\nx = defualtdict(list)",
        "collections",
        "defualtdict",
        members=members,
    )
    assert mended(found) == "from collections import defaultdict\nx = defaultdict(list)"
    assert no_member("from collections import nonsense", "collections", "nonsense", members=members) is None


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("sklearn", "scikit-learn"),
        ("cv2", "opencv-python-headless"),
        ("bs4", "beautifulsoup4"),
        ("PIL.Image", "pillow"),
        ("yaml", "pyyaml"),
        ("serial", "pyserial"),
        ("polars", "polars"),
    ],
)
def test_the_distribution_of_a_module_is_installed_if_it_is_approved(module: str, package: str) -> None:
    found = no_module(f"import {module}", module, modules=(), approved=(package,))
    assert found is not None
    assert found.applies
    assert found.packages == (package,)
    assert found.source is None
    assert package in suggested(no_module(f"import {module}", module, modules=()))


def test_another_distribution_of_the_same_module_will_do() -> None:
    found = no_module("import cv2", "cv2", modules=(), approved=("opencv-python",))
    assert found is not None
    assert found.packages == ("opencv-python",)


def test_what_a_library_wants_besides_is_installed_too() -> None:
    message = "Missing optional dependency 'openpyxl'.  Use pip or conda to install openpyxl."
    found = propose(failed("pd.read_excel('a.xlsx')", "ImportError", message, approved=("openpyxl",)))
    assert found is not None
    assert found.packages == ("openpyxl",)
    assert found.applies
