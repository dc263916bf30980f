"""Files and texts whose tempting repair would let the cell run on something else."""

from __future__ import annotations

from tests.support.plans.failures_rows import Row, mended, suggested

__all__ = ["ROWS"]

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

ROWS: tuple[Row, ...] = (*FILES, *TEXTS)
