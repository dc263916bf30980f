"""Failures whose tempting repair would let the cell run and mean something else."""

from __future__ import annotations

from tests.support.plans.failures_rows import Row, mended, suggested

__all__ = ["ROWS"]

FRAME = "import pandas as pd\n"
NAMES: tuple[Row, ...] = (
    suggested("targets for features", "name", "t = len(Xtrain)", setup="ytrain = [1, 2]"),
    suggested("targets for features of a test", "name", "t = sum(xtest)", setup="ytest = [1, 2]"),
    suggested("limits of the other axis", "name", "t = xlim[0]", setup="ylim = (3, 4)"),
    suggested("another error measure", "name", "t = round(rmse, 2)", setup="rmsle = 0.5"),
    suggested("a symmetric error measure", "name", "t = mape * 100", setup="smape = 0.5"),
    suggested("the previous for the predicted", "name", "t = prev_y[0]", setup="pred_y = [7]"),
    suggested("customers for costs", "name", "t = len(cust_df)", setup="cost_df = [7]"),
    suggested("the current for a correlation", "name", "t = curr + 1", setup="corr = 0.5"),
    suggested("another group by its letter", "name", "t = groupa[0]", setup="groupb = [7]"),
    suggested("singular and plural", "name", "t = trains[0]", setup="train = [7]"),
    suggested("a frame and frames", "name", "t = len(df)", setup="dfs = [7, 8]"),
    suggested("another feature", "name", "t = x1 + 1", setup="x2 = 3"),
    suggested("one and several axes", "name", "t = axis[0]", setup="axes = [7]"),
    suggested("one and several analyses", "name", "t = analysis[0]", setup="analyses = [7]"),
    suggested("a patent for a patient", "name", "t = patent_id + 1", setup="patient_id = 7"),
    suggested("statistics for states", "name", "t = stats_df[0]", setup="states_df = [7]"),
    suggested("a scaler for what was scaled", "name", "t = scaler[0]", setup="scaled = [7]"),
    suggested("a payer for a payee", "name", "t = payer_total", setup="payee_total = 7"),
    suggested("a measure that was never taken", "name", "results = {'r2': r2_score}\nt = str(results['r2'])"),
    suggested("a measure that is only printed", "name", "t = f'accuracy: {accuracy_score}'"),
    suggested(
        "null compared with a column",
        "name",
        "t = len(df[df['a'] == null])",
        "None",
        setup=FRAME + "df = pd.DataFrame({'a': [1.0, None]})",
    ),
    suggested("a class that looks like a builtin", "name", "t = Filter(None, [0, 1])"),
    suggested(
        "a name that another scope has",
        "name",
        "def f(rates):\n    return sum(rates)\nt = f([1]) + rats[0]",
        setup="rate = [3]",
    ),
    mended(
        "a loop's own variable before a global near it",
        "name",
        "misspelt_name",
        "t = 0\nfor amount in [1, 2]:\n    t += amuont",
        "t == 3",
        setup="amounts = [50]",
    ),
)

THREAD = "import threading\ngo = threading.Event()\nthreading.Thread(target=go.wait, daemon=True).start()\n"
"""What no checkpoint can be taken beside."""

TWICE: tuple[Row, ...] = (
    suggested(
        "a name after what would be counted twice",
        "name",
        "n += 1\nt = toatl",
        "twice",
        setup=THREAD + "n = total = 1",
    ),
    suggested(
        "a name after what would be written twice",
        "name",
        "open('log.txt', 'a').write('x')\nt = toatl",
        "twice",
        setup=THREAD + "total = 3",
    ),
    suggested(
        "a column after one that would be doubled twice",
        "key",
        "df['amount'] = df['amount'] * 2\nt = df['region'].tolist()",
        "twice",
        setup=THREAD + FRAME + "df = pd.DataFrame({'amount': [1], 'Region': ['x']})",
    ),
    mended(
        "a name after what is the same each time",
        "name",
        "misspelt_name",
        "import math\nm = math.sqrt(total)\nt = toatl * m",
        "t == 8.0",
        setup=THREAD + "total = 4",
    ),
)

ATTRIBUTES: tuple[Row, ...] = (
    suggested(
        "a list taken for a set",
        "attribute",
        "seen = []\nfor x in [1, 1, 2]:\n    seen.add(x)\nt = len(seen)",
    ),
    suggested(
        "a set taken for a list",
        "attribute",
        "rows = set()\nfor x in [1, 1, 2]:\n    rows.append(x)\nt = len(rows)",
    ),
    suggested("a geometric mean", "attribute", "import numpy as np\nt = np.gmean([1, 4])"),
    suggested("a cotangent's inverse", "attribute", "import math\nt = math.acot(0.5)"),
    suggested(
        "the altitude for the latitude of a point",
        "attribute",
        "t = point.lat",
        setup="from types import SimpleNamespace\npoint = SimpleNamespace(alt=3.0, lon=4.0)",
    ),
    suggested(
        "the altitude for the latitude of a row",
        "attribute",
        "t = [row.lat for row in df.itertuples()]",
        setup=FRAME + "df = pd.DataFrame({'alt': [1.0], 'lon': [2.0]})",
    ),
    suggested("a square", "attribute", "import math\nt = math.sqr(9)"),
    suggested(
        "a column that the frame itself has a word for",
        "attribute",
        "t = df.Size * 2",
        setup=FRAME + "df = pd.DataFrame({'a': [1, 2, 3]})",
    ),
    suggested(
        "the altitude for the latitude, as an attribute",
        "attribute",
        "t = df.lat.mean()",
        setup=FRAME + "df = pd.DataFrame({'alt': [1.0], 'lon': [2.0]})",
    ),
    mended(
        "has_key of one or the other",
        "attribute",
        "attribute",
        "a, b = {}, {'k': 1}\nt = (a or b).has_key('k')",
        "t is True",
    ),
    mended(
        "has_key of what depends",
        "attribute",
        "attribute",
        "d = {'k': 1}\nt = d.has_key('k' if d else 'z')",
        "t is True",
    ),
    mended(
        "decode of two texts",
        "attribute",
        "attribute",
        "a, b = 'x', 'y'\nt = (a + b).decode('utf-8').upper()",
        "t == 'XY'",
    ),
    mended(
        "fillna of a difference",
        "type",
        "fill_method",
        "t = (a - b).fillna(method='ffill').tolist()",
        "t == [1.0, 1.0]",
        setup=FRAME + "a = pd.Series([2.0, None])\nb = pd.Series([1.0, 5.0])",
    ),
    suggested(
        "a row's number under a new name",
        "attribute",
        "t = df.with_row_count().columns",
        setup="import polars as pl\ndf = pl.DataFrame({'a': [1]})",
    ),
    suggested(
        "an attribute near two others",
        "attribute",
        "from datetime import datetime\nt = datetime.strtime('2024', '%Y')",
    ),
    suggested("a divisor with a sign", "import", "from fractions import gcd\nt = gcd(12, -18)"),
    suggested(
        "a rule that became another", "import", "from scipy.integrate import simps\nt = simps([1, 2, 5, 9])"
    ),
)

SYNTAX: tuple[Row, ...] = (
    suggested(
        "a line that may belong to the loop",
        "syntax",
        "t = 0\nfor x in [1, 2, 3]:\n    y = x * 2\nprint(y)\n    t += y",
    ),
    suggested("a list or a tuple", "syntax", "t = (1, 2, 3]"),
    suggested("a set or a list", "syntax", "t = {1, 1, 2]"),
    suggested("an argument of one or the other", "syntax", "t = round(sum([1.234, 2.5], 2)"),
    suggested("a factor within or without", "syntax", "a, b = 1, 3\nt = int(round(a / b * 100)"),
    suggested("a sum or two items", "syntax", "t = (3 * 4\n     5)"),
    suggested("a bracket of a chain", "syntax", "t = abs(3 - 5 * 2\nprint(t)"),
    suggested("a comment or a division", "syntax", "t = 100\n// 7"),
    suggested("Python 2 that divides", "syntax", "total, n = 7, 2\nt = total / n\nprint t"),
    suggested("an assignment in a condition", "syntax", "import re\nif m = re.match('a', 'abc'):\n    t = 1"),
    suggested("a body of one or two lines", "syntax", "t = 0\nfor x in [1, 2]:\ny = x\nt += y"),
    suggested("a line between two levels", "syntax", "t = 0\nfor x in [1, 2]:\n        y = x\n    t += 1"),
    suggested("a quote that can end in two places", "syntax", "b = 2\nt = print('a, b)"),
    suggested("keywords or lines of their own", "syntax", "t = dict(a=1,\nu = 3"),
    suggested(
        "masks joined as another language does",
        "syntax",
        "t = df[(df.a > 1) && (df.a < 4)]",
        setup="import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})",
    ),
)

ROWS: tuple[Row, ...] = (*NAMES, *TWICE, *ATTRIBUTES, *SYNTAX)
