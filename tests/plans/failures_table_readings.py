"""Columns, keys, files and texts whose tempting repair would let the cell run on something else."""

from __future__ import annotations

from tests.plans.failures_rows import Row, mended, suggested

__all__ = ["ROWS"]

FRAME = "import pandas as pd\n"
HISTORY = (
    FRAME
    + "df = pd.DataFrame({'Level': ['region', 'city', 'Region'], 'Region': ['n', 's', 'e'], 'amount': [1, 2, 4]})"
)

COLUMNS: tuple[Row, ...] = (
    suggested(
        "the altitude for the latitude",
        "key",
        "t = df['lat'].mean()",
        setup=FRAME + "df = pd.DataFrame({'alt': [1.0], 'lon': [2.0]})",
    ),
    suggested(
        "the time for the temperature",
        "key",
        "t = df['T'].mean()",
        "'t'",
        setup=FRAME + "df = pd.DataFrame({'t': [1.0], 'v': [2.0]})",
    ),
    suggested("carbon monoxide and cobalt", "key", "t = mass['CO']", setup="mass = {'Co': 58.9, 'H': 1.0}"),
    suggested("megawatts and milliwatts", "key", "t = factor['mW']", setup="factor = {'MW': 1e6, 'W': 1.0}"),
    suggested("another country", "key", "t = gdp['Ireland']", setup="gdp = {'Iceland': 28, 'Norway': 485}"),
    suggested("another person", "key", "t = score['Christina']", setup="score = {'Christian': 1, 'Paul': 2}"),
    suggested(
        "another person's longer name",
        "key",
        "t = score['Joanna']",
        setup="score = {'Johanna': 1, 'Paul': 2}",
    ),
    suggested(
        "another share of the same company",
        "key",
        "t = price['GOOG']",
        setup="price = {'GOOGL': 1, 'MSFT': 2}",
    ),
    suggested(
        "a country's column",
        "key",
        "t = table['Ireland'].sum()",
        setup=FRAME + "table = pd.DataFrame({'Iceland': [1], 'Norway': [2]})",
    ),
    suggested(
        "one price of several currencies",
        "key",
        "t = df['price'].sum()",
        setup=FRAME + "df = pd.DataFrame({'price_usd': [1], 'price_eur': [2]})",
    ),
    suggested(
        "data for a date",
        "key",
        "t = df['date'][0]",
        setup=FRAME + "df = pd.DataFrame({'data': ['x'], 'id': [1]})",
    ),
    mended(
        "a value that reads like the column",
        "key",
        "column",
        "t = df.loc[df['Level'] == 'region', 'region'].tolist()",
        "t == ['n']",
        setup=HISTORY,
    ),
    mended(
        "a value of a filter that reads like the column",
        "key",
        "column",
        "t = df[df['Level'] == 'region']['region'].tolist()",
        "t == ['n']",
        setup=HISTORY,
    ),
    mended(
        "values that read like the column",
        "key",
        "column",
        "t = df['region'].tolist()\nu = df['Level'].isin(['region']).sum()",
        "u == 1 and t == ['n', 's', 'e']",
        setup=HISTORY,
    ),
    mended(
        "a replacement that reads like the column",
        "key",
        "column",
        "t = df['region'].replace('n', 'region').tolist()",
        "t[0] == 'region'",
        setup=HISTORY,
    ),
    mended(
        "a text to fill with that reads like the column",
        "key",
        "column",
        "t = df['region'].where(df['amount'] > 1, 'region').tolist()",
        "t[0] == 'region'",
        setup=HISTORY,
    ),
    mended(
        "a default that reads like the key",
        "key",
        "key",
        "t = d['north'] + 1\nu = d.get('x', 'north')",
        "u == 'north' and t == 2",
        setup="d = {'North': 1}",
    ),
    mended(
        "a title that reads like the column",
        "key",
        "column",
        "import matplotlib\nmatplotlib.use('agg')\nt = df.plot(x='amount', y='amounts2', title='amounts2').get_title()",
        "t == 'amounts2'",
        setup=FRAME + "df = pd.DataFrame({'amount': [1], 'Amounts 2': [2]})",
    ),
    mended(
        "a column on the other side of a merge",
        "key",
        "column",
        "t = a.merge(b, left_on='cust id', right_on='cust id')",
        "len(t) == 1",
        setup=FRAME
        + "a = pd.DataFrame({'Cust ID': [1]})\nb = pd.DataFrame({'cust id': [1], 'Cust ID': [2]})",
    ),
    suggested(
        "a row's label near a column",
        "key",
        "t = df.loc['total']",
        setup=FRAME + "df = pd.DataFrame({'Total': [1]}, index=['a'])",
    ),
    suggested(
        "a column that is renamed in the cell",
        "key",
        "df = df.set_axis(['total'], axis=1)\nt = df['total'].sum() + old['total'].sum()",
        setup=FRAME + "df = pd.DataFrame({'x': [1]})\nold = pd.DataFrame({'Totals': [1], 'n': [2]})",
    ),
    suggested(
        "a frame that becomes another on the way",
        "key",
        "t = df['region'].nunique()\ndf = other\nu = df['region'].tolist()",
        setup=HISTORY + "\nother = pd.DataFrame({'region': ['a'], 'Region': ['b']})",
    ),
    suggested(
        "a variable in a query",
        "key",
        "max_price = 3\nt = len(df.query('price < max_price'))",
        setup=FRAME + "df = pd.DataFrame({'price': [1, 5], 'Max Price': [9, 9]})",
    ),
    suggested(
        "a file's name beside a query",
        "key",
        "df.query(q).to_csv('region.csv')",
        setup=HISTORY + "\nq = 'region == \"n\"'",
    ),
    suggested(
        "a level of several",
        "key",
        "t = df['sales']['Q2'].sum()",
        setup=FRAME + "df = pd.DataFrame({('sales', 'Q1'): [1], ('sales', 'Q3'): [2]})",
    ),
    suggested(
        "an aggregate of another column",
        "key",
        "t = df.groupby('g').agg({'sale': 'sum'})",
        setup=FRAME + "df = pd.DataFrame({'g': [1], 'sales': [2]})",
    ),
    suggested(
        "a column of polars near another",
        "key",
        "t = df.select(pl.col('rate')).item()",
        setup="import polars as pl\ndf = pl.DataFrame({'date': [1], 'n': [2]})",
    ),
    suggested(
        "a label of a series",
        "key",
        "t = s['Ireland']",
        setup=FRAME + "s = pd.Series({'Iceland': 1, 'Norway': 2})",
    ),
)

FILES: tuple[Row, ...] = (
    suggested(
        "a backup that is not there",
        "file",
        "t = open('backup/orders.csv').read()",
        files={"orders.csv": "a\n1\n"},
    ),
    suggested(
        "one year's file, and all years'",
        "file",
        "t = open('2023/sales.csv').read()",
        files={"sales.csv": "a\n1\n"},
    ),
    suggested(
        "a file that only the tests have",
        "file",
        "t = open('users.csv').read()",
        files={"tests/fixtures/users.csv": "a\n1\n"},
    ),
    suggested(
        "another data set's file",
        "file",
        "t = open('/kaggle/input/titanic/train.csv').read()",
        files={"train.csv": "a\n1\n"},
    ),
    suggested(
        "a file's name that is also data",
        "file",
        "import pandas as pd\nt = pd.read_csv('Sales.csv')\nt['source'] = 'Sales.csv'",
        files={"sales.csv": "a\n1\n"},
    ),
    suggested(
        "files that are near each other",
        "file",
        "t = open('sales_2023_q1.csv').read()",
        files={"sales_2023_q2.csv": "a\n1\n", "sales_2023_q3.csv": "a\n1\n"},
    ),
    suggested(
        "training for test",
        "file",
        "t = open('test.csv').read()",
        files={"text.csv": "a\n1\n", "train.csv": "b\n"},
    ),
    suggested(
        "a misspelt directory to write into",
        "file",
        "open('resutls/a.csv', 'w').write('x')",
        "results",
        files={"results/b.csv": "x"},
    ),
    suggested("braces without an f", "file", "where = 'out'\nopen('{where}/a.csv', 'w').write('x')"),
    suggested("a directory that is None", "file", "where = None\nopen(f'{where}/a.csv', 'w').write('x')"),
    suggested("another system's drive", "file", "open('C:/reports/a.csv', 'w').write('x')"),
    suggested("a bucket", "file", "open('s3://bucket/a.csv', 'w').write('x')"),
    suggested("a variable of the shell", "file", "open('$HOME/out/a.csv', 'w').write('x')"),
    suggested("a directory elsewhere", "file", "open('/nowhere/out/a.csv', 'w').write('x')"),
    suggested(
        "a copy of what is not there",
        "file",
        "import shutil\nshutil.copy('inputs/a.csv', 'out/a.csv')",
        files={"out/b.csv": "x"},
    ),
    suggested(
        "a frame that is read and written in one go",
        "file",
        "import pandas as pd\npd.read_csv('inputs/a.csv').to_csv('out/a.csv')",
        files={"out/b.csv": "x"},
    ),
    mended(
        "directories made in a loop",
        "file",
        "missing_directory",
        "for year in (2023, 2024):\n    with open(f'by_year/{year}/a.csv', 'w') as f:\n        f.write(str(year))",
        "open('by_year/2023/a.csv').read() + open('by_year/2024/a.csv').read() == '20232024'",
    ),
    mended(
        "what was appended before it failed",
        "file",
        "missing_directory",
        "with open('log.txt', 'a') as f:\n    f.write('x')\nn += 1\nopen('out/a.csv', 'w').write('x')",
        "open('log.txt').read() == 'ax' and n == 2",
        setup="n = 1",
        files={"log.txt": "a"},
    ),
)

TEXTS: tuple[Row, ...] = (
    suggested(
        "Czech",
        "encoding",
        "import pandas as pd\nt = pd.read_csv('lide.csv')['jmeno'][0]",
        files={"lide.csv": "jmeno,vek\nDvořák,3\nKučera,4\n".encode("cp1250")},
    ),
    suggested(
        "Hungarian",
        "encoding",
        "t = open('varos.txt').read()",
        files={"varos.txt": "Győr\nerdő\n".encode("cp1250")},
    ),
    suggested(
        "Romanian",
        "encoding",
        "t = open('nume.txt').read()",
        files={"nume.txt": "Bănică\nPopă\n".encode("cp1250")},
    ),
    suggested(
        "Polish",
        "encoding",
        "t = open('miasto.txt').read()",
        files={"miasto.txt": "Gdańsk\nToruń\n".encode("cp1250")},
    ),
    suggested(
        "Russian units",
        "encoding",
        "t = open('unit.csv').read()",
        files={"unit.csv": "item,unit\na,кг\n".encode("cp1251")},
    ),
    suggested(
        "Russian",
        "encoding",
        "t = open('imena.csv').read()",
        files={"imena.csv": "имя\nЮлий\n".encode("cp1251")},
    ),
    suggested(
        "Japanese",
        "encoding",
        "t = open('na.csv').read()",
        files={"na.csv": "名前,値\n東京,1\n".encode("shift-jis")},
    ),
    suggested(
        "Chinese",
        "encoding",
        "t = open('na.csv').read()",
        files={"na.csv": "名称,价格\n北京,1\n".encode("gbk")},
    ),
    suggested(
        "an old system's quotation marks",
        "encoding",
        "t = open('o.txt').read()",
        files={"o.txt": "ökonomie 3\n".encode("cp850")},
    ),
    suggested(
        "an old system's letters",
        "encoding",
        "t = open('o.txt').read()",
        files={"o.txt": "malaga\nmálaga\n".encode("cp850")},
    ),
    suggested(
        "one wrong byte in much UTF-8",
        "encoding",
        "t = open('o.txt').read()",
        files={"o.txt": "café\n".encode() * 50 + b"caf\xe9\n"},
    ),
    mended(
        "French",
        "encoding",
        "encoding",
        "t = open('f.txt').read()",
        "t == 'élève à Nîmes, forêt\\n'",
        files={"f.txt": "élève à Nîmes, forêt\n".encode("latin-1")},
    ),
    mended(
        "Spanish",
        "encoding",
        "encoding",
        "t = open('f.txt').read()",
        "t == 'Año, niño, corazón, ¿qué?\\n'",
        files={"f.txt": "Año, niño, corazón, ¿qué?\n".encode("latin-1")},
    ),
    mended(
        "Portuguese",
        "encoding",
        "encoding",
        "t = open('f.txt').read()",
        "t == 'São João, ações, manhã\\n'",
        files={"f.txt": "São João, ações, manhã\n".encode("latin-1")},
    ),
    mended(
        "Danish",
        "encoding",
        "encoding",
        "t = open('f.txt').read()",
        "t == 'Århus, æble, ø\\n'",
        files={"f.txt": "Århus, æble, ø\n".encode("latin-1")},
    ),
    suggested(
        "a file written where another is read by somebody else",
        "encoding",
        "t = load('f.csv')\nopen('out.txt', 'w').write(t)",
        setup="def load(path):\n    with open(path) as f:\n        return f.read()",
        files={"f.csv": "größe\n".encode("latin-1")},
    ),
    suggested(
        "semicolons within two of the fields",
        "value",
        "import pandas as pd\nt = pd.read_csv('p.csv')",
        files={"p.csv": "id,tag;mark,notes\na,x;y,hello\nb,z;y,well, ok\n"},
    ),
    suggested(
        "decimal commas",
        "key",
        "import pandas as pd\nt = pd.read_csv('p.csv')\nu = t['price'].sum()",
        files={"p.csv": "item;price\na;1,5\nb;2,25\n"},
    ),
    suggested(
        "points between thousands",
        "key",
        "import pandas as pd\nt = pd.read_csv('p.csv')\nu = t['people'].sum()",
        files={"p.csv": "city;people\nUlm;126.405\nBonn;331.885\n"},
    ),
)

ROWS: tuple[Row, ...] = (*COLUMNS, *FILES, *TEXTS)
