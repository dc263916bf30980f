"""Columns and keys whose tempting repair would let the cell run on something else."""

from __future__ import annotations

from tests.support.plans.failures_rows import Row, mended, suggested

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
        "the altitude for the latitude in full",
        "key",
        "t = df['latitude'].mean()",
        "altitude",
        setup=FRAME + "df = pd.DataFrame({'altitude': [1.0], 'longitude': [2.0]})",
    ),
    suggested(
        "a count that begins at nothing",
        "key",
        "counts['Apple'] = counts['Apple'] + 1",
        setup="counts = {'apple': 2}",
    ),
    mended(
        "a frame of the same name elsewhere",
        "key",
        "column",
        "def regions(df):\n    return df['region'].tolist()\nt = regions(other)\nu = df['region'].tolist()",
        "t == ['x'] and u == ['a']",
        setup=FRAME
        + "other = pd.DataFrame({'Region': ['x']})\ndf = pd.DataFrame({'region': ['a'], 'Region': ['b']})",
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

ROWS: tuple[Row, ...] = COLUMNS
