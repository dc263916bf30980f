"""Columns, keys, files and encodings that fail and can be repaired."""

from __future__ import annotations

from tests.support.plans.failures_rows import Row, mended

__all__ = ["ROWS"]

SALES = (
    "import pandas as pd\n"
    "df = pd.DataFrame({'Region': ['n', 's', 'n'], ' units sold': [1, 2, 3], 'unit_price': [2.0, 3.0, 4.0],"
    " 'Customer ID': [7, 8, 7]})\n"
    "names = pd.DataFrame({'Customer ID': [7, 8], 'name': ['x', 'y']})"
)
POLARS = (
    "import polars as pl\nfrom polars import col\ndf = pl.DataFrame({'Region': ['n', 's'], 'amount': [1, 2]})"
)
CSV = "name,amount\na,1\nb,2\n"
SEMICOLONS = "name;amount;city\na;1;Ulm\nb;2;Bonn\n"
LATIN = "straße;größe\nGoethestraße;3\nMüllerweg;4\n".encode("latin-1")

COLUMNS: tuple[Row, ...] = (
    mended(
        "a column in another case",
        "key",
        "column",
        "t = df['region'].tolist()",
        "t == ['n', 's', 'n']",
        setup=SALES,
    ),
    mended(
        "a column with a blank before it",
        "key",
        "column",
        "t = int(df['units sold'].sum())",
        "t == 6",
        setup=SALES,
    ),
    mended(
        "a column with other separators",
        "key",
        "column",
        "t = df['Unit Price'].max()",
        "t == 4.0",
        setup=SALES,
    ),
    mended(
        "the same wrong column three times",
        "key",
        "column",
        "df['total'] = df['unitprice'] * 2 + df['unitprice']\nt = df['unitprice'].sum() + df['total'].sum()",
        "t == 36.0",
        setup=SALES,
    ),
    mended(
        "a column with two letters swapped",
        "key",
        "column",
        "t = df['Regoin'].nunique()",
        "t == 2",
        setup=SALES,
    ),
    mended(
        "one of a list of columns",
        "key",
        "column",
        "t = df[['Region', 'customer id']].shape",
        "t == (3, 2)",
        setup=SALES,
    ),
    mended(
        "a column to group by",
        "key",
        "column",
        "t = df.groupby('region')['unit_price'].sum().to_dict()",
        "t == {'n': 6.0, 's': 3.0}",
        setup=SALES,
    ),
    mended(
        "a column of groups",
        "key",
        "column",
        "t = df.groupby('Region')['unit-price'].sum().to_dict()",
        "t == {'n': 6.0, 's': 3.0}",
        setup=SALES,
    ),
    mended(
        "a column to sort by",
        "key",
        "column",
        "t = df.sort_values('Unit_Price', ascending=False)['unit_price'].iloc[0]",
        "t == 4.0",
        setup=SALES,
    ),
    mended(
        "a column to merge on",
        "key",
        "column",
        "t = df.merge(names, on='customer id')['name'].tolist()",
        "sorted(t) == ['x', 'x', 'y']",
        setup=SALES,
    ),
    mended(
        "a column to drop", "key", "column", "t = df.drop(columns=['region']).shape[1]", "t == 3", setup=SALES
    ),
    mended(
        "a column for an index",
        "key",
        "column",
        "t = df.set_index('region').index.name",
        "t == 'Region'",
        setup=SALES,
    ),
    mended(
        "a column by loc",
        "key",
        "column",
        "t = df.loc[df['unit_price'] > 2, 'region'].tolist()",
        "t == ['s', 'n']",
        setup=SALES,
    ),
    mended(
        "a column without missing values",
        "key",
        "column",
        "t = len(df.dropna(subset=['region']))",
        "t == 3",
        setup=SALES,
    ),
    mended(
        "a column as an attribute",
        "attribute",
        "misspelt_attribute",
        "t = df.region.tolist()",
        "t == ['n', 's', 'n']",
        setup=SALES,
    ),
    mended(
        "a column of polars", "key", "column", "t = df['region'].to_list()", "t == ['n', 's']", setup=POLARS
    ),
    mended(
        "a column that polars selects",
        "key",
        "column",
        "t = df.select('Amount').sum().item()",
        "t == 3",
        setup=POLARS,
    ),
    mended(
        "a column in an expression of polars",
        "key",
        "column",
        "t = df.filter(pl.col('region') == 'n').height",
        "t == 1",
        setup=POLARS,
    ),
    mended(
        "a key in another case",
        "key",
        "key",
        "t = config['Host']",
        "t == 'localhost'",
        setup="config = {'host': 'localhost', 'port': 80}",
    ),
    mended(
        "a key with two letters swapped",
        "key",
        "key",
        "t = person['adress']['ctiy']",
        "t == 'Ulm'",
        setup="person = {'name': 'x', 'adress': {'city': 'Ulm', 'street': 'A'}}",
    ),
)

FILES: tuple[Row, ...] = (
    mended(
        "a file that lies in a directory",
        "file",
        "missing_file",
        "import pandas as pd\nt = len(pd.read_csv('sales.csv'))",
        "t == 2",
        files={"data/sales.csv": CSV, "notes.txt": "x"},
    ),
    mended(
        "a file in another case",
        "file",
        "missing_file",
        "t = open('Data/Sales.csv').read()",
        "t.startswith('name')",
        files={"data/sales.csv": CSV},
    ),
    mended(
        "a file with another extension's case",
        "file",
        "missing_file",
        "import pandas as pd\nt = len(pd.read_csv('sales.csv'))",
        "t == 2",
        files={"sales.CSV": CSV},
    ),
    mended(
        "a file with two letters swapped",
        "file",
        "missing_file",
        "from pathlib import Path\nt = Path('slaes.csv').read_text()",
        "t.startswith('name')",
        files={"sales.csv": CSV, "other.txt": "x"},
    ),
    mended(
        "a frame written to a missing directory",
        "file",
        "missing_directory",
        "df.to_csv('out/tables/sales.csv', index=False)",
        "__import__('pandas').read_csv('out/tables/sales.csv').shape == (3, 4)",
        setup=SALES,
    ),
    mended(
        "a text written to a missing directory",
        "file",
        "missing_directory",
        "with open('reports/summary.txt', 'w') as file:\n    file.write('done')",
        "open('reports/summary.txt').read() == 'done'",
    ),
    mended(
        "a chart saved to a missing directory",
        "file",
        "missing_directory",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('charts/line.png')",
        "open('charts/line.png', 'rb').read(4) == b'\\x89PNG'",
    ),
    mended(
        "an array saved to a missing directory",
        "file",
        "missing_directory",
        "import numpy as np\nnp.save('arrays/a.npy', np.arange(3))",
        "__import__('numpy').load('arrays/a.npy').tolist() == [0, 1, 2]",
    ),
    mended(
        "a path written to a missing directory",
        "file",
        "missing_directory",
        "from pathlib import Path\nPath('notes/today.txt').write_text('hi')",
        "open('notes/today.txt').read() == 'hi'",
    ),
    mended(
        "a JSON file written to a missing directory",
        "file",
        "missing_directory",
        "import json\njson.dump({'a': 1}, open('results/a.json', 'w'))",
        "__import__('os').path.isdir('results')",
    ),
)

TEXTS: tuple[Row, ...] = (
    mended(
        "a table in Latin-1",
        "encoding",
        "encoding",
        "import pandas as pd\nt = pd.read_csv('strassen.csv', sep=';')['straße'][0]",
        "t == 'Goethestraße'",
        files={"strassen.csv": LATIN},
    ),
    mended(
        "a table in UTF-16",
        "encoding",
        "encoding",
        "import pandas as pd\nt = pd.read_csv('wide.csv')['amount'].sum()",
        "t == 3",
        files={"wide.csv": CSV.encode("utf-16")},
    ),
    mended(
        "a text in Latin-1",
        "encoding",
        "encoding",
        "with open('strassen.csv') as file:\n    t = file.read()",
        "'Müllerweg' in t",
        files={"strassen.csv": LATIN},
    ),
    mended(
        "a path's text in Latin-1",
        "encoding",
        "encoding",
        "from pathlib import Path\nt = Path('strassen.csv').read_text()",
        "'größe' in t",
        files={"strassen.csv": LATIN},
    ),
    mended(
        "semicolons taken for commas, seen by a column",
        "key",
        "separator",
        "import pandas as pd\ntable = pd.read_csv('cities.csv')\nt = table['city'].tolist()",
        "t == ['Ulm', 'Bonn'] and table.shape == (2, 3)",
        files={"cities.csv": SEMICOLONS},
    ),
    mended(
        "semicolons taken for commas, seen by the parser",
        "value",
        "separator",
        "import pandas as pd\nt = pd.read_csv('notes.csv')",
        "list(t.columns) == ['name', 'note'] and t['note'][1] == 'b, c, d'",
        files={"notes.csv": "name;note\nx;a\ny;b, c, d\nz;e\n"},
    ),
    mended(
        "tabs taken for commas",
        "key",
        "separator",
        "import pandas as pd\ntable = pd.read_csv('cities.tsv')\nt = table['amount'].sum()",
        "int(t) == 3 and table.shape == (2, 3)",
        files={"cities.tsv": SEMICOLONS.replace(";", "\t")},
    ),
    mended(
        "bars taken for commas",
        "key",
        "separator",
        "import pandas as pd\ntable = pd.read_csv('cities.txt')\nt = table[['name', 'city']].shape",
        "t == (2, 2)",
        files={"cities.txt": SEMICOLONS.replace(";", "|")},
    ),
)

ROWS: tuple[Row, ...] = (*COLUMNS, *FILES, *TEXTS)
