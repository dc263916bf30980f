from __future__ import annotations

import codecs

import pytest

from cellwright.engine.introspection import Head, Raised, Subject
from cellwright.plans import Failure, Proposal
from cellwright.plans.fixers import propose
from cellwright.plans.fixers._tabular import sniff_encoding, sniff_separator
from tests.support.plans.handmade import failed, frame, mended, no_file, no_key, suggested

# Columns -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "at", "expected"),
    [
        ("x = df['region']", "df['region']", "x = df['Region']"),
        ('x = df["unit_price"] * 2', 'df["unit_price"]', 'x = df["Unit Price"] * 2'),
        ("x = df['quantiy'].sum()", "df['quantiy']", "x = df['quantity'].sum()"),
        ("x = df['total']", "df['total']", "x = df[' total ']"),
        ("x = df.groupby('region').sum()", "df.groupby('region')", "x = df.groupby('Region').sum()"),
        (
            "x = df.sort_values(by=['region'])",
            "df.sort_values(by=['region'])",
            "x = df.sort_values(by=['Region'])",
        ),
        ("x = df.loc[0, 'region']", "df.loc[0, 'region']", "x = df.loc[0, 'Region']"),
        ("x = df.agg({'region': 'sum'})", "df.agg({'region': 'sum'})", "x = df.agg({'Region': 'sum'})"),
    ],
)
def test_a_column_is_the_only_one_near_it(source: str, at: str, expected: str) -> None:
    key = at.replace('"', "'").split("'")[1]
    subject = frame("Region", "Unit Price", "quantity", " total ")
    assert mended(propose(no_key(source, key, at, subject))) == expected


def test_every_use_on_the_same_frame_is_mended_and_nothing_else() -> None:
    source = (
        "a = df['region']\nb = df[df['region'] == 'region']\n"
        "c = other['region']\nd = df.groupby('region')['region']\nlabel = 'region'"
    )
    expected = (
        "a = df['Region']\nb = df[df['Region'] == 'region']\n"
        "c = other['region']\nd = df.groupby('Region')['Region']\nlabel = 'region'"
    )
    assert mended(propose(no_key(source, "region", "df['region']", frame("Region", "x")))) == expected


@pytest.mark.parametrize(
    "text",
    [
        "df['x'].str.replace('region', '')",
        "df['x'].isin(['region'])",
        "df['x']['region']",
        "df['x'].map({'a': 'region'})",
        "df.plot(x='x', title='region')",
        "df.agg({'x': 'region'})",
        "df.fillna('region')",
        "df.x == 'region'",
        "df.index['region']",
        "df.assign(x='region')",
        "df.filter(pl.col('x') == 'region')",
        "df.filter(pl.lit('region'))",
        "{'region': df}",
        "pd.melt(df, ['region' + 's'])",
        "label(df, 'region')",
    ],
)
def test_a_text_that_is_only_the_same_is_never_touched(text: str) -> None:
    source = f"a = df['region']\nb = {text}"
    found = propose(no_key(source, "region", "df['region']", frame("Region", "x")))
    assert found is not None
    assert found.source in (None, f"a = df['Region']\nb = {text}")


def test_other_columns_that_would_fail_next_are_mended_at_once() -> None:
    source = "a = df['region']\nb = df[['Quantity', 'region', 'nonsense']]"
    expected = "a = df['Region']\nb = df[['quantity', 'Region', 'nonsense']]"
    assert mended(propose(no_key(source, "region", "df['region']", frame("Region", "quantity")))) == expected


def test_several_columns_that_are_missing_in_a_list_are_all_mended() -> None:
    source = "x = df[['region', 'quantiy']]"
    failure = failed(
        source,
        "KeyError",
        "\"['region', 'quantiy'] not in index\"",
        at="df[['region', 'quantiy']]",
        details={"key": "['region', 'quantiy'] not in index"},
        subject=frame("Region", "quantity"),
    )
    assert mended(propose(failure)) == "x = df[['Region', 'quantity']]"


@pytest.mark.parametrize(
    ("key", "columns"),
    [
        ("price", ("Price", "price ")),  # two are the same but for case and space
        ("price", ("prize", "pricy")),
        ("q3", ("q1", "q2")),
        ("date", ("data",)),
        ("country", ("county",)),
        ("sale", ("sales",)),
        ("x_mean", ("y_mean",)),
        ("amount_2023", ("amount_2024",)),
        ("profit", ("region", "sales")),
    ],
)
def test_a_column_that_may_be_another_is_only_suggested(key: str, columns: tuple[str, ...]) -> None:
    source = f"x = df['{key}']"
    reason = suggested(propose(no_key(source, key, f"df['{key}']", frame(*columns))))
    assert key in reason
    assert any(repr(column) in reason for column in columns)


@pytest.mark.parametrize(
    "making",
    ["df['region'] = 1", "df = df.rename(columns={'a': 'region'})", "df = df.assign(region=1)"],
)
def test_a_column_that_the_cell_makes_itself_is_not_renamed(making: str) -> None:
    source = f"x = df['region']\n{making}"
    suggested(propose(no_key(source, "region", "df['region']", frame("Region", "x"))))


def test_a_column_named_by_a_variable_is_only_suggested() -> None:
    source = "name = 'region'\nx = df[name]"
    assert "'Region'" in suggested(propose(no_key(source, "region", "df[name]", frame("Region", "x"))))


def test_a_column_that_the_frame_has_is_missing_in_another_one() -> None:
    source = "x = df.merge(other, on='region')"
    found = propose(no_key(source, "region", "df.merge(other, on='region')", frame("region", "Region")))
    assert found is None or not found.applies


def test_a_frame_whose_columns_are_not_all_known_is_not_guessed_at() -> None:
    subject = Subject("df", "pandas.DataFrame", columns=("Region",), shape=(3, 900))
    suggested(propose(no_key("x = df['region']", "region", "df['region']", subject)))


def test_a_column_of_polars_is_mended_in_expressions_too() -> None:
    message = 'unable to find column "region"; valid columns: ["Region", "x"]'
    source = "x = df.filter(pl.col('region') == 'a')"
    at = "df.filter(pl.col('region') == 'a')"
    failure = failed(source, "ColumnNotFoundError", message, at=at, subject=frame("Region", "x"))
    assert mended(propose(failure)) == "x = df.filter(pl.col('Region') == 'a')"


def test_a_column_that_is_asked_for_as_an_attribute_is_mended() -> None:
    def no_attribute(source: str, name: str) -> Proposal | None:
        message = f"'DataFrame' object has no attribute '{name}'"
        details = {"name": name, "obj_type": "pandas.DataFrame"}
        subject = frame("Region", "Unit Price")
        return propose(
            failed(source, "AttributeError", message, at=f"df.{name}", details=details, subject=subject)
        )

    assert mended(no_attribute("x = df.region.sum()", "region")) == "x = df.Region.sum()"
    assert mended(no_attribute("x = df.unit_price.sum()", "unit_price")) == 'x = df["Unit Price"].sum()'


def test_a_column_in_the_text_of_a_query_is_mended() -> None:
    def queried(source: str, name: str) -> Proposal | None:
        raised = Raised("UndefinedVariableError", f"name '{name}' is not defined")
        return propose(no_key(source, name, "df.query", frame("quantity", "Unit Price"), raised=raised))

    assert mended(queried("x = df.query('Quantity > 1')", "Quantity")) == "x = df.query('quantity > 1')"
    assert (
        mended(queried("x = df.query('unit_price > 1')", "unit_price")) == "x = df.query('`Unit Price` > 1')"
    )
    suggested(queried("x = df.query('Quantity == \"Quantity\"')", "Quantity"))


# Keys --------------------------------------------------------------------------------------------------------------


def mapping(*keys: str | int) -> Subject:
    return Subject("d", "dict", keys=keys, length=len(keys))


def test_a_key_is_the_only_one_near_it() -> None:
    assert (
        mended(propose(no_key("x = d['name']", "name", "d['name']", mapping("Name", "age"))))
        == "x = d['Name']"
    )
    assert (
        mended(propose(no_key("x = d['adress']", "adress", "d['adress']", mapping("address"))))
        == "x = d['address']"
    )


def test_a_key_that_is_simply_missing_is_told_with_those_that_are_there() -> None:
    reason = suggested(propose(no_key("x = d['city']", "city", "d['city']", mapping("name", "age"))))
    assert "'name', 'age'" in reason
    assert "d.get('city')" in reason
    assert "it has '1'" in suggested(propose(no_key("x = d[1]", 1, "d[1]", mapping("1"))))
    assert "it is empty" in suggested(propose(no_key("x = d['a']", "a", "d['a']", mapping())))


def test_a_key_is_not_guessed_where_not_all_are_known_or_two_are_near() -> None:
    many = Subject("d", "dict", keys=("Name",), length=5_000)
    suggested(propose(no_key("x = d['name']", "name", "d['name']", many)))
    suggested(propose(no_key("x = d['name']", "name", "d['name']", mapping("Name", "NAME"))))
    suggested(propose(no_key("d['name'] += 1\nd['name'] = 2", "name", "d['name']", mapping("Name"))))


# Files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "files", "meant"),
    [
        ("sales.csv", ("Sales.CSV", "other.csv"), "Sales.CSV"),
        ("sales.csv", ("data/", "data/sales.csv"), "data/sales.csv"),
        ("data/sales.csv", ("sales.csv",), "sales.csv"),
        ("./sales.csv", ("../sales.csv",), "../sales.csv"),
        ("/home/user/data/sales.csv", ("data/sales.csv",), "data/sales.csv"),
        ("/project/Sales.csv", ("sales.csv",), "/project/sales.csv"),
        ("data/custmers.csv", ("data/customers.csv", "data/x.csv"), "data/customers.csv"),
        ("dataa/x.csv", ("dataa_/", "dataa_/x.csv"), "dataa_/x.csv"),
        ("pictures/kitten.jpg", ("pictures/kitten.jpeg",), "pictures/kitten.jpeg"),
        ("monthly-report.csv", ("monthly_report.csv",), "monthly_report.csv"),
    ],
)
def test_a_file_is_the_only_one_that_can_be_meant(path: str, files: tuple[str, ...], meant: str) -> None:
    source = f"x = pd.read_csv('{path}')\nprint('{path}')  # {path}\ny = open('{path}')"
    expected = f"x = pd.read_csv('{meant}')\nprint('{path}')  # {path}\ny = open('{meant}')"
    assert mended(propose(no_file(source, path, at=f"pd.read_csv('{path}')", files=files))) == expected


@pytest.mark.parametrize(
    ("path", "files"),
    [
        ("labels.csv", ("train/labels.csv", "test/labels.csv")),
        ("sales_2023.csv", ("sales_2024.csv",)),
        ("data/2023/sales.csv", ("data/2024/sales.csv",)),
        ("sales.csv", ("archive/sales.csv",)),
        ("input/sales.csv", ("output/sales.csv",)),
        ("report.csv", ("report.txt",)),
        ("price.csv", ("prices.csv",)),
        ("a.csv", ("b.csv",)),
        ("missing.csv", ("other.csv",)),
        ("data.csv", ("date.csv",)),
    ],
)
def test_a_file_that_may_be_another_is_only_suggested(path: str, files: tuple[str, ...]) -> None:
    source = f"x = open('{path}').read()"
    assert path in suggested(propose(no_file(source, path, at=f"open('{path}')", files=files)))


def test_a_path_that_is_put_together_is_mended_in_its_part() -> None:
    source = "x = (Path('data') / 'reprot.csv').read_text()"
    failure = no_file(
        source, "data/reprot.csv", at="(Path('data') / 'reprot.csv').read_text()", files=("data/report.csv",)
    )
    assert mended(propose(failure)) == "x = (Path('data') / 'report.csv').read_text()"


def test_a_file_that_the_cell_also_writes_keeps_its_name() -> None:
    source = "x = open('cachee.txt').read()\nopen('cachee.txt', 'w').write('')"
    suggested(propose(no_file(source, "cachee.txt", at="open('cachee.txt')", files=("cache.txt",))))


def test_a_program_that_is_not_there_is_no_file() -> None:
    source = "subprocess.run(['scirpt.py'])"
    failure = no_file(source, "scirpt.py", at=source, files=("script.py",), library="subprocess")
    assert propose(failure) is None


@pytest.mark.parametrize(
    ("source", "at", "line"),
    [
        ("open('out/x.txt', 'w').write('a')", "open('out/x.txt', 'w')", 'os.makedirs("out", exist_ok=True)'),
        ("open('out/x.txt', mode='ab')", "open('out/x.txt', mode='ab')", 'os.makedirs("out", exist_ok=True)'),
        ("df.to_csv('out/x.txt')", "df.to_csv('out/x.txt')", 'os.makedirs("out", exist_ok=True)'),
        (
            "plt.savefig('out/x.txt', dpi=9)",
            "plt.savefig('out/x.txt', dpi=9)",
            'os.makedirs("out", exist_ok=True)',
        ),
        ("np.save('out/x.txt', a)", "np.save('out/x.txt', a)", 'os.makedirs("out", exist_ok=True)'),
        (
            "Path(p).write_text('')",
            "Path(p).write_text('')",
            "os.makedirs(os.path.dirname(Path(p)), exist_ok=True)",
        ),
        ("json.dump(a, open(p, 'w'))", "open(p, 'w')", "os.makedirs(os.path.dirname(p), exist_ok=True)"),
    ],
)
def test_a_directory_that_is_written_into_is_made_first(source: str, at: str, line: str) -> None:
    assert mended(propose(no_file(source, "out/x.txt", at=at))) == f"import os\n{line}\n{source}"


def test_the_directory_is_made_where_the_writing_is() -> None:
    source = "import os\nfor k in 'ab':\n    with open(f'out/{k}/x', 'w') as f: f.write('')\nprint('done')"
    expected = source.replace(
        "    with", "    os.makedirs(os.path.dirname(f'out/{k}/x'), exist_ok=True)\n    with"
    )
    assert mended(propose(no_file(source, "out/a/x", at="open(f'out/{k}/x', 'w')"))) == expected


def test_pandas_own_words_for_a_missing_directory_are_understood() -> None:
    source = "df.to_csv('out/deep/x.csv')"
    message = "Cannot save file into a non-existent directory: 'out/deep'"
    found = propose(failed(source, "OSError", message, at=source, library="pandas"))
    assert mended(found) == f'import os\nos.makedirs("out/deep", exist_ok=True)\n{source}'


@pytest.mark.parametrize(
    ("path", "files"),
    [
        ("ouptut/x.txt", ("output/",)),  # a slip
        ("/elsewhere/x.txt", ()),  # not here
        ("../x/x.txt", ()),
        ("there/x.txt", ("there/",)),  # it is not the directory that is missing
    ],
)
def test_a_directory_is_not_made_where_something_else_may_be_wrong(path: str, files: tuple[str, ...]) -> None:
    source = f"open('{path}', 'w')"
    found = propose(no_file(source, path, at=source, files=files))
    assert found is None or not found.applies


def test_what_is_only_read_makes_no_directory() -> None:
    for source in ("open('out/x.txt')", "open('out/x.txt', 'r')", "pd.read_csv('out/x.txt')"):
        assert "makedirs" not in str(propose(no_file(source, "out/x.txt", at=source)))


# Encodings and separators ------------------------------------------------------------------------------------------


def head(path: str, content: bytes) -> Head:
    return Head(path, content, len(content))


def undecodable(source: str, content: bytes) -> Failure:
    message = "'utf-8' codec can't decode byte 0xe9 in position 3: invalid continuation byte"
    return failed(
        source,
        "UnicodeDecodeError",
        message,
        at=source.rpartition("\n")[2].strip(),
        heads=(head("a.csv", content),),
    )


WESTERN = "name,city\nJosé,München\n".encode("cp1252")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("df = pd.read_csv('a.csv')", "df = pd.read_csv('a.csv', encoding=\"cp1252\")"),
        ("df = pd.read_csv('a.csv', encoding='utf-8')", "df = pd.read_csv('a.csv', encoding=\"cp1252\")"),
        (
            "df = pd.read_csv(\n    'a.csv',  # ours\n)",
            "df = pd.read_csv(\n    'a.csv', encoding=\"cp1252\",  # ours\n)",
        ),
        (
            "with open('a.csv') as f:\n    t = f.read()",
            "with open('a.csv', encoding=\"cp1252\") as f:\n    t = f.read()",
        ),
        ("t = Path('a.csv').read_text()", "t = Path('a.csv').read_text(encoding=\"cp1252\")"),
        ("p = 'a.csv'\nt = open(p, 'r').read()", "p = 'a.csv'\nt = open(p, 'r', encoding=\"cp1252\").read()"),
    ],
)
def test_a_text_is_read_in_the_encoding_it_is_written_in(source: str, expected: str) -> None:
    assert mended(propose(undecodable(source, WESTERN))) == expected


def test_a_mark_at_the_beginning_tells_the_encoding() -> None:
    utf_16 = codecs.BOM_UTF16_LE + "a,b\n1,2\n".encode("utf-16-le")
    assert 'encoding="utf-16"' in mended(propose(undecodable("pd.read_csv('a.csv')", utf_16)))


@pytest.mark.parametrize(
    "content",
    [
        "\u0438\u043c\u044f\n\u041c\u043e\u0441\u043a\u0432\u0430\n".encode("cp1251"),
        "imię,miasto\nŁukasz,Łódź\n".encode("cp1250"),
        "isim\n\u0130\u011fd\u0131r\n".encode("cp1254"),
        "名前,都市\n太郎,東京\n".encode("shift-jis"),
        "name\nMärz\n".encode("cp437"),
        "name\nJosé\n".encode("mac-roman"),
        b"\x00\x01\xff\xfe binary \x9d",
    ],
    ids=["cp1251", "cp1250", "cp1254", "shift-jis", "cp437", "mac-roman", "binary"],
)
def test_an_encoding_that_only_may_be_is_not_chosen(content: bytes) -> None:
    assert "name its encoding" in suggested(propose(undecodable("pd.read_csv('a.csv')", content)))


def test_what_is_no_utf8_only_further_down_is_not_guessed() -> None:
    assert sniff_encoding(b"plain text so far") is None


def ragged(content: str, source: str = "df = pd.read_csv('a.csv')") -> Proposal | None:
    message = "Error tokenizing data. C error: Expected 1 fields in line 3, saw 2\n"
    return propose(
        failed(
            source,
            "ParserError",
            message,
            at="pd.read_csv('a.csv')",
            heads=(head("a.csv", content.encode()),),
        )
    )


def test_lines_are_split_by_the_separator_that_all_of_them_have() -> None:
    assert mended(ragged("a;b\nx, y;1\nz;2\n")) == "df = pd.read_csv('a.csv', sep=\";\")"
    assert mended(ragged('a\tb\n"x, y, z"\t1\nz, w\t2\n')) == "df = pd.read_csv('a.csv', sep=\"\\t\")"


def test_lines_that_no_separator_explains_are_only_told_of() -> None:
    assert "Line 3" in suggested(ragged("a\nb\n1,2\n"))
    assert "Line 3" in suggested(ragged("a;b\n1,2;3\n4,5;6;7\n"))


def test_decimal_commas_are_only_suggested() -> None:
    found = ragged("a;b\n1,5;2\nx;2,5\n")
    assert "decimal commas" in suggested(found)
    assert found is not None
    assert found.source == 'df = pd.read_csv(\'a.csv\', sep=";", decimal=",")'


def test_a_frame_of_one_column_tells_of_another_separator() -> None:
    source = "df = pd.read_csv('a.csv')\nx = df['b'].sum()"
    subject = frame("a;b;c")
    heads = (head("a.csv", b"a;b;c\n1;2;3\n"),)
    found = propose(no_key(source, "b", "df['b']", subject, heads=heads))
    assert mended(found) == "df = pd.read_csv('a.csv', sep=\";\")\nx = df['b'].sum()"
    elsewhere = no_key("x = df['b'].sum()", "b", "df['b']", subject)
    assert "separated by ';'" in suggested(propose(elsewhere))
    another = "other = pd.read_csv('a.csv')\nx = df['b'].sum()"
    suggested(propose(no_key(another, "b", "df['b']", subject, heads=heads)))
    commas = (head("a.csv", b"a;b;c\n1,5;2;3\n"),)
    suggested(propose(no_key(source, "b", "df['b']", subject, heads=commas)))


def test_a_separator_is_told_by_every_line() -> None:
    assert sniff_separator("a,b\n1,2\n", whole=True) == ","
    assert sniff_separator('a;b\n"1;2";3\n', whole=True) == ";"
    assert sniff_separator("a;b\n1;2\n3", whole=True) is None
    assert sniff_separator("a;b\n1;2\n3", whole=False) == ";"
    assert sniff_separator("a,b;c\n1,2;3\n", whole=True) is None
    assert sniff_separator("a\nb\n", whole=True) is None
    assert sniff_separator("", whole=True) is None


def test_a_column_that_a_reader_is_told_of_is_mended_by_the_first_line() -> None:
    def unread(source: str, message: str) -> Proposal | None:
        heads = (head("a.csv", b"Date,Value\n2024-01-01,1\n"),)
        return propose(failed(source, "ValueError", message, at=source, heads=heads))

    missing = "Usecols do not match columns, columns expected but not found: ['date']"
    assert (
        mended(unread("pd.read_csv('a.csv', usecols=['date'])", missing))
        == "pd.read_csv('a.csv', usecols=['Date'])"
    )
    assert mended(unread("pd.read_csv('a.csv', index_col='date')", "Index date invalid")) == (
        "pd.read_csv('a.csv', index_col='Date')"
    )
    assert "'Date', 'Value'" in suggested(
        unread("pd.read_csv('a.csv', index_col='when')", "Index when invalid")
    )
