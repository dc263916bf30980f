"""Failures that code could end, and where a tempting repair would be a guess: they are left as they are."""

from __future__ import annotations

from tests.support.plans.failures_rows import Row, suggested

__all__ = ["ROWS"]

FRAME = "import pandas as pd\n"

ROWS: tuple[Row, ...] = (
    suggested("a name near two others", "name", "t = total_c", setup="total_a, total_b = 1, 2"),
    suggested(
        "a name near one that means the other axis", "name", "t = mean_y * 2", "mean_x", setup="mean_x = 3.0"
    ),
    suggested("a name near one of another number", "name", "t = batch2", setup="batch1 = [1]"),
    suggested("a word near another word", "name", "t = count + 1", setup="court = 'x'"),
    suggested("a name that nothing is near", "name", "t = revenue / 2"),
    suggested("a class's name near a variable", "name", "t = Model(3)", "model", setup="model = [1]"),
    suggested("a package that is not approved", "import", "import cv2\nt = 1", "approved"),
    suggested(
        "a name that only became builtin",
        "import",
        "from itertools import izip\nt = list(izip('ab', 'cd'))",
        "zip",
    ),
    suggested("a module that nobody knows", "import", "import our_private_helpers", "our_private_helpers"),
    suggested(
        "a column near two others",
        "key",
        "t = df['amount']",
        "amount_a",
        setup=FRAME + "df = pd.DataFrame({'amount_a': [1], 'amount_b': [2]})",
    ),
    suggested(
        "a column of another year",
        "key",
        "t = df['sales_2024'].sum()",
        "sales_2023",
        setup=FRAME + "df = pd.DataFrame({'sales_2023': [1], 'name': ['x']})",
    ),
    suggested(
        "a column that is another word",
        "key",
        "t = df['rate'].sum()",
        "date",
        setup=FRAME + "df = pd.DataFrame({'date': [1], 'amount': [2]})",
    ),
    suggested(
        "two columns that differ in case only",
        "key",
        "t = df['Id']",
        setup=FRAME + "df = pd.DataFrame({'ID': [1], 'id': [2]})",
    ),
    suggested(
        "a key that is simply missing",
        "key",
        "t = prices['pear']",
        "apple",
        setup="prices = {'apple': 1, 'plum': 2}",
    ),
    suggested(
        "a key near one of another number", "key", "t = rows['row2']", setup="rows = {'row1': 1, 'name': 2}"
    ),
    suggested(
        "a file of another year",
        "file",
        "t = open('sales_2025.csv').read()",
        "sales_2024.csv",
        files={"sales_2024.csv": "a\n1\n"},
    ),
    suggested(
        "a file in two directories",
        "file",
        "t = open('sales.csv').read()",
        "old/sales.csv",
        files={"old/sales.csv": "a\n1\n", "new/sales.csv": "a\n2\n"},
    ),
    suggested("an index past the end", "index", "t = items[3]", "3", setup="items = [1, 2, 3]"),
    suggested(
        "a negative index before the beginning", "index", "t = items[-4]", "3", setup="items = [1, 2, 3]"
    ),
    suggested(
        "a row past the end of a frame",
        "index",
        "t = df.iloc[5]",
        setup=FRAME + "df = pd.DataFrame({'a': [1, 2]})",
    ),
    suggested(
        "a division by a count that is zero",
        "zero_division",
        "t = total / count",
        "count",
        setup="total, count = 5, 0",
    ),
    suggested("text and a number", "type", "t = 'total: ' + 5"),
    suggested("a number that is none", "value", "t = int('twelve')"),
    suggested("a list that is called", "type", "t = items(1)", "items[1]", setup="items = [1, 2]"),
    suggested("an assertion of the cell", "assertion", "rows = []\nassert rows, 'no rows were loaded'"),
    suggested("a cell that takes too long", "timeout", "while True:\n    pass", "time", timeout_s=0.5),
    suggested("two items without a comma", "syntax", "t = [1 2]"),
    suggested(
        "an error of the code's own making", "other", "raise RuntimeError('the model did not converge')"
    ),
    suggested(
        "a cause within another error",
        "key",
        "try:\n    {}['x']\nexcept KeyError as e:\n    raise RuntimeError('no') from e",
    ),
    suggested(
        "a name in a function of another cell",
        "name",
        "t = scaled(2)",
        setup="factor = 3\ndef scaled(x):\n    return x * facotr",
    ),
    suggested(
        "a column that is one of several",
        "key",
        "t = df['price'].sum()",
        setup=FRAME + "df = pd.DataFrame({'prices': [1], 'name': ['x']})",
    ),
    suggested(
        "a column that the cell itself means to make",
        "key",
        "df = df.rename(columns={'a': 'Total'})\nt = df['total_2'].sum()",
        setup=FRAME + "df = pd.DataFrame({'a': [1], 'total_1': [2]})",
    ),
    suggested(
        "a number for a text as a key", "key", "t = rows[1]", "'1'", setup="rows = {'1': 'x', '2': 'y'}"
    ),
    suggested(
        "a bracket that could be closed in two places",
        "syntax",
        "t = abs(-3 + 5 * 2\nu = t + 1",
    ),
    suggested(
        "a file that is no text",
        "encoding",
        "t = open('data.bin').read()",
        files={"data.bin": bytes(range(256)) * 8},
    ),
    suggested(
        "a table whose separator is not clear",
        "value",
        "import pandas as pd\nt = pd.read_csv('odd.csv')",
        files={"odd.csv": "a b\n1;2,3\n4,5;6,7,8\n9\n"},
    ),
    suggested(
        "one argument too few",
        "type",
        "def area(width, height):\n    return width * height\nt = area(3)",
        "height",
    ),
    suggested("a date that is none", "value", "from datetime import date\nt = date(2024, 2, 30)"),
)
