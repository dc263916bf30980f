"""Names, imports, attributes and calls that fail and can be repaired."""

from __future__ import annotations

from tests.support.plans.failures_rows import Row, mended

__all__ = ["ROWS"]

FRAME = "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2, 3], 'b': [4, 5, 6]})"

NAMES: tuple[Row, ...] = (
    mended(
        "pandas by its alias",
        "name",
        "missing_import",
        "t = pd.DataFrame({'a': [1, 2]})['a'].sum()",
        "t == 3",
    ),
    mended("numpy by its alias", "name", "missing_import", "t = float(np.arange(4).mean())", "t == 1.5"),
    mended(
        "pyplot by its alias",
        "name",
        "missing_import",
        "fig, ax = plt.subplots()\nlines = ax.plot([1, 2], [3, 4])",
        "len(ax.lines) == 1",
    ),
    mended(
        "polars by its alias", "name", "missing_import", "t = pl.DataFrame({'a': [1, 2]}).height", "t == 2"
    ),
    mended("math", "name", "missing_import", "t = math.sqrt(16)", "t == 4.0"),
    mended("json", "name", "missing_import", "t = json.loads('{\"a\": 1}')['a']", "t == 1"),
    mended(
        "re in a function",
        "name",
        "missing_import",
        "def f(s):\n    return re.findall('a', s)\nt = f('aba')",
        "len(t) == 2",
    ),
    mended("os", "name", "missing_import", "t = os.path.basename('/a/b.csv')", "t == 'b.csv'"),
    mended(
        "Path",
        "name",
        "missing_import",
        "t = Path('a') / 'b.csv'",
        "t.name == 'b.csv' and t.parent.name == 'a'",
    ),
    mended(
        "defaultdict",
        "name",
        "missing_import",
        "t = defaultdict(list)\nt['a'].append(1)",
        "dict(t) == {'a': [1]}",
    ),
    mended("Counter", "name", "missing_import", "t = Counter('aab')", "t['a'] == 2"),
    mended(
        "datetime as a class",
        "name",
        "missing_import",
        "t = datetime.strptime('2024-05-01', '%Y-%m-%d').year",
        "t == 2024",
    ),
    mended("datetime as a module", "name", "missing_import", "t = datetime.timedelta(days=2).days", "t == 2"),
    mended(
        "itertools below a comment",
        "name",
        "missing_import",
        "# pairs\nt = list(itertools.pairwise([1, 2, 3]))",
        "t == [(1, 2), (2, 3)]",
    ),
    mended(
        "a name with two letters swapped",
        "name",
        "misspelt_name",
        "t = toatl * 2",
        "t == 84",
        setup="total = 42",
    ),
    mended(
        "a name in another case",
        "name",
        "misspelt_name",
        "t = average + 1",
        "t == 3.5",
        setup="Average = 2.5",
    ),
    mended(
        "a name without its underscore",
        "name",
        "misspelt_name",
        "t = rowcount + 1",
        "t == 8",
        setup="row_count = 7",
    ),
    mended(
        "a name with a letter too many, twice",
        "name",
        "misspelt_name",
        "t = resullt + resullt",
        "t == 6",
        setup="result = 3",
    ),
    mended("true", "name", "foreign_name", "t = [true, false, null]", "t == [True, False, None]"),
    mended("xrange", "name", "foreign_name", "t = sum(xrange(4))", "t == 6"),
    mended("unicode", "name", "foreign_name", "t = unicode(3) + 'x'", "t == '3x'"),
)

IMPORTS: tuple[Row, ...] = (
    mended(
        "a name that moved to collections.abc",
        "import",
        "moved_import",
        "from collections import Mapping\nt = isinstance({}, Mapping)",
        "t is True",
    ),
    mended(
        "cPickle",
        "import",
        "moved_import",
        "import cPickle as pickle\nt = pickle.loads(pickle.dumps([1]))",
        "t == [1]",
    ),
    mended(
        "StringIO",
        "import",
        "moved_import",
        "from StringIO import StringIO\nt = StringIO('ab').read()",
        "t == 'ab'",
    ),
    mended(
        "urlencode",
        "import",
        "moved_import",
        "from urllib import urlencode\nt = urlencode({'a': 1})",
        "t == 'a=1'",
    ),
    mended(
        "Queue", "import", "moved_import", "import Queue\nq = Queue.Queue()\nq.put(1)\nt = q.get()", "t == 1"
    ),
    mended(
        "zip_longest by its old name",
        "import",
        "moved_import",
        "from itertools import izip_longest\nt = list(izip_longest('ab', 'c'))",
        "t == [('a', 'c'), ('b', None)]",
    ),
    mended(
        "reduce is no longer of itertools",
        "name",
        "missing_import",
        "t = reduce(lambda a, b: a + b, [1, 2, 3])",
        "t == 6",
    ),
    mended(
        "a misspelt module",
        "import",
        "misspelt_import",
        "import pandsa as pd\nt = pd.Series([1, 2]).sum()",
        "int(t) == 3",
    ),
    mended(
        "a misspelt submodule",
        "import",
        "misspelt_import",
        "import matplotlib.pyplt as plt\nfig = plt.figure()",
        "fig is not None",
    ),
    mended(
        "a misspelt member",
        "import",
        "misspelt_import",
        "from collections import OrderedDcit\nt = list(OrderedDcit(a=1))",
        "t == ['a']",
    ),
    mended(
        "another misspelt member",
        "import",
        "misspelt_import",
        "from json import laods\nt = laods('[1]')",
        "t == [1]",
    ),
)

ATTRIBUTES: tuple[Row, ...] = (
    mended(
        "a method that another language has", "attribute", "attribute", "t = ' abc '.trim()", "t == 'abc'"
    ),
    mended("has_key", "attribute", "attribute", "d = {'a': 1}\nt = d.has_key('a')", "t is True"),
    mended(
        "iteritems of a dict",
        "attribute",
        "attribute",
        "d = {'a': 1}\nt = [k for k, v in d.iteritems()]",
        "t == ['a']",
    ),
    mended(
        "iteritems of a frame",
        "attribute",
        "attribute",
        "t = [n for n, c in df.iteritems()]",
        "t == ['a', 'b']",
        setup=FRAME,
    ),
    mended("as_matrix", "attribute", "attribute", "t = df.as_matrix().shape", "t == (3, 2)", setup=FRAME),
    mended(
        "np.float",
        "attribute",
        "attribute",
        "import numpy as np\nt = np.array([1], dtype=np.float)[0]",
        "float(t) == 1.0",
    ),
    mended("np.int", "attribute", "attribute", "import numpy as np\nt = np.int(3.7)", "t == 3"),
    mended(
        "np.complex",
        "attribute",
        "attribute",
        "import numpy as np\nt = np.zeros(2, dtype=np.complex)",
        "t.dtype == complex",
    ),
    mended(
        "np.product", "attribute", "attribute", "import numpy as np\nt = int(np.product([2, 3]))", "t == 6"
    ),
    mended("string.letters", "attribute", "attribute", "import string\nt = len(string.letters)", "t == 52"),
    mended(
        "sys.maxint",
        "attribute",
        "attribute",
        "import sys\nt = sys.maxint",
        "t == __import__('sys').maxsize",
    ),
    mended(
        "a misspelt method of a list",
        "attribute",
        "misspelt_attribute",
        "t = [3]\nt.appendd(4)",
        "t == [3, 4]",
    ),
    mended(
        "a misspelt method of a frame",
        "attribute",
        "misspelt_attribute",
        "t = len(df.heead(2))",
        "t == 2",
        setup=FRAME,
    ),
    mended(
        "a misspelt function of a module",
        "attribute",
        "misspelt_attribute",
        "import math\nt = math.flor(2.7)",
        "t == 2",
    ),
    mended(
        "read_cvs",
        "attribute",
        "misspelt_attribute",
        "import pandas as pd\nt = len(pd.read_cvs('rows.csv'))",
        "t == 2",
        files={"rows.csv": "a,b\n1,2\n3,4\n"},
    ),
    mended("shape is no method", "type", "call", "t = df.shape()", "t == (3, 2)", setup=FRAME),
    mended(
        "columns is no method",
        "type",
        "call",
        "t = list(df.columns())",
        "t == ['a', 'b']",
        setup=FRAME,
    ),
)

ROWS: tuple[Row, ...] = (*NAMES, *IMPORTS, *ATTRIBUTES)
