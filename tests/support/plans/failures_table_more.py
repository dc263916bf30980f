"""Failures that tempt: several mistakes at once, and texts that only look like the mistake."""

from __future__ import annotations

from tests.support.plans.failures_rows import Row, mended, suggested

FRAME = (
    "import pandas as pd\n"
    "df = pd.DataFrame({'Region': ['a', 'b', 'a'], 'Unit Price': [1.0, 2.0, 3.0], 'quantity': [1, 2, 3]})\n"
)

ROWS: tuple[Row, ...] = (
    mended(
        "a column in the singular",
        "key",
        "column",
        "t = sales['unit'].sum()",
        "t == 6",
        setup=FRAME + "sales = pd.DataFrame({'units': [1, 2, 3]})",
    ),
    mended(
        "one of two columns that are as near",
        "key",
        "column",
        "t = rates['rate_z'].sum()",
        "t == 7",
        setup=FRAME + "rates = pd.DataFrame({'rate_x': [1, 2], 'rate_y': [3, 4]})",
    ),
    mended(
        "a loop that counts from one",
        "index",
        "bounds",
        "t = []\nfor i in range(1, len(items) + 1):\n    t.append(items[i])",
        "t == [1, 2, 3]",
        setup="items = [1, 2, 3]",
    ),
    mended(
        "a number with its unit",
        "value",
        "value",
        "t = [float(x) for x in weights]",
        "t == [12.0, 3.5]",
        setup="weights = ['12 kg', '3.5 kg']",
    ),
    mended(
        "a date in another order",
        "value",
        "value",
        "from datetime import datetime\nt = datetime.strptime('03/04/2024', '%Y-%m-%d')",
        "t.month == 4",
    ),
    mended(
        "a condition on two columns",
        "value",
        "value",
        "t = df[df['quantity'] > 1 and df['quantity'] < 3].shape[0]",
        "t == 1",
        setup=FRAME,
    ),
    mended(
        "pairs of a mapping without its items",
        "value",
        "value",
        "t = []\nfor key, value in prices:\n    t.append(value)",
        "t == [1, 2]",
        setup="prices = {'apple': 1, 'pear': 2}",
    ),
    mended(
        "four imports at once",
        "name",
        "missing_import",
        "t = pd.Series(np.ones(3)).sum()\np = Path('a') / 'b'\nm = math.floor(2.5)",
        "t == 3 and str(p) == 'a/b' and m == 2",
    ),
    mended(
        "three columns at once",
        "key",
        "column",
        "a = df['region'].nunique()\nb = df[['unit_price', 'Quantity']].shape\nc = df['region'].tolist()",
        "a == 2 and b == (3, 2) and c == ['a', 'b', 'a']",
        setup=FRAME,
    ),
    mended(
        "a value that reads like a column of another frame",
        "key",
        "column",
        "t = (df['region'].str.replace('region', 'x') == 'region').sum()\nlabel = 'region'",
        "t == 0 and label == 'region'",
        setup=FRAME,
    ),
    mended(
        "a value compared with that reads like the column",
        "key",
        "column",
        "t = len(df[df['region'] == 'region'])",
        "t == 1",
        setup="import pandas as pd\ndf = pd.DataFrame({'Region': ['region', 'Region'], 'x': [1, 2]})",
    ),
    mended(
        "a column in a query",
        "key",
        "column",
        "t = df.query('Quantity > 1 and Region == \"a\"').shape[0]",
        "t == 1",
        setup=FRAME,
    ),
    mended(
        "a column that the reader is told of",
        "value",
        "column",
        "import pandas as pd\nt = pd.read_csv('days.csv', parse_dates=['date'])['Date'][0].year",
        "t == 2024",
        files={"days.csv": "Date,Value\n2024-05-01,1\n"},
    ),
    mended(
        "a column's error that somebody made another one of",
        "key",
        "column",
        "try:\n    t = df['region'].nunique()\nexcept KeyError as error:\n    raise RuntimeError('no') from error",
        "t == 2",
        setup=FRAME,
    ),
    mended(
        "a column in a chain over lines",
        "key",
        "column",
        "t = (\n    df\n    .groupby('region')  # by place\n    .agg(total=('Quantity', 'sum'))\n)['total'].tolist()",
        "t == [4, 2]",
        setup=FRAME,
    ),
    mended(
        "two letters swapped beside a name like it",
        "attribute",
        "misspelt_attribute",
        "import matplotlib.pyplot as plt\nplt.figure()\nplt.xlable('place')\nt = plt.gca().get_xlabel()",
        "t == 'place'",
    ),
    suggested(
        "an encoding that is not western",
        "encoding",
        "import pandas as pd\nt = pd.read_csv('miasta.csv')",
        "encoding",
        files={"miasta.csv": "imię,miasto\nŁukasz,Łódź\n".encode("cp1250")},
    ),
    suggested(
        "decimal commas of another office",
        "key",
        "import pandas as pd\ndf = pd.read_csv('prices.csv')\nt = df['price'].sum()",
        "decimal",
        files={"prices.csv": "name;price\na;1,5\nb;2,5\n"},
    ),
    suggested(
        "a line that left its block, or one that did not",
        "syntax",
        "t = 0\nfor i in range(3):\n    t += i\nu = t\n    t += 100",
    ),
    suggested(
        "a file in the directory of another year",
        "file",
        "t = open('data/2023/sales.txt').read()",
        "2024",
        files={"data/2024/sales.txt": "x"},
    ),
    suggested(
        "another series to append",
        "attribute",
        "t = df.append(row)",
        "concat",
        setup=FRAME + "row = df.loc[0]",
    ),
)
