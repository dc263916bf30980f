"""Failures of code that was right for older releases of its libraries."""

from __future__ import annotations

from tests.support.plans.failures_rows import Row, mended, suggested

FRAME = (
    "import pandas as pd\n"
    "df = pd.DataFrame({'day': ['a', 'a', 'b'], 'region': ['n', 's', 'n'], 'units': [1.0, None, 3.0]})\n"
)

ROWS: tuple[Row, ...] = (
    mended(
        "a style that was renamed",
        "file",
        "style",
        "import matplotlib.pyplot as plt\nplt.style.use('seaborn-whitegrid')\nt = plt.rcParams['axes.grid']",
        "t is True",
    ),
    mended(
        "a frequency that was renamed",
        "value",
        "frequency",
        "t = pd.date_range('2024-01-31', periods=2, freq='M')[1].day",
        "t == 29",
        setup=FRAME,
    ),
    mended(
        "a keyword that became a method",
        "type",
        "keyword",
        "t = df[['units']].fillna(method='ffill', axis=0)['units'].tolist()",
        "t == [1.0, 1.0, 3.0]",
        setup=FRAME,
    ),
    mended(
        "arguments that must be named, in another order than they are listed",
        "type",
        "positions",
        "t = df.pivot('day', 'region', 'units').loc['b', 'n']",
        "t == 3",
        setup=FRAME,
    ),
    mended(
        "a function that became methods",
        "attribute",
        "library_name",
        "t = pd.rolling_sum(df['units'].fillna(0), 2).tolist()[1:]",
        "t == [1.0, 3.0]",
        setup=FRAME,
    ),
    suggested(
        "a style that never was",
        "file",
        "import matplotlib.pyplot as plt\nplt.style.use('seaborn-nothing')",
        "matplotlib has neither a style `seaborn-nothing`",
    ),
)
