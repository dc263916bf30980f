"""What people hold in a session, each with code that makes it, spoils it, and looks whether it is as it was.

Data only; ``test_checkpoint_table`` runs it.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DATA", "ROWS", "Row"]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table in docs/guides/checkpoints.md."""

    what: str
    setup: str
    check: str
    """Raises unless everything is as it was; where something is named, unless it fails in a plain way."""
    change: str = ""
    """Runs between the checkpoint and the rollback."""
    shows: str | None = None
    """A format that the check must put out."""
    on_disk: bool = False
    """Whether it has to do with files of the working directory, which each mode keeps in its way."""
    is_outside: bool = False
    """Whether it is about what lies outside it, of which every reply warns."""


DATA = [
    Row(
        "numpy arrays",
        "import numpy as np\na = np.arange(90_000.0).reshape(300, 300)\ntotal = (a @ a).sum()",
        "assert a[1, 1] == 301 and (a @ a).sum() == total",
        "a[:] = 0",
    ),
    Row(
        "numpy generators",
        "import copy, numpy as np\nrng = np.random.default_rng(7)\nrng.random(3)\n"
        "np.random.seed(3)\nexpected = copy.deepcopy(rng).random(5), np.random.RandomState(3).rand(5)",
        "assert (rng.random(5) == expected[0]).all() and (np.random.rand(5) == expected[1]).all()",
        "rng.random(4), np.random.rand(2)",
    ),
    Row(
        "numpy memory maps",
        "import numpy as np\nm = np.memmap('m.bin', dtype='int64', mode='w+', shape=(1000,))\nm[:] = 1\nm.flush()",
        "assert (m == 1).all() and (np.fromfile('m.bin', dtype='int64') == 1).all()\n"
        "m[5] = 9\nm.flush()\nassert np.fromfile('m.bin', dtype='int64')[5] == 9",
        "m[:] = 2\nm.flush()",
        on_disk=True,
    ),
    Row(
        "pandas frames",
        "import pandas as pd\nd = pd.DataFrame({'k': list('abab'), 'v': range(4)})\nd['k'] = d['k'].astype('category')",
        "assert d.groupby('k', observed=True).v.sum().to_dict() == {'a': 2, 'b': 4} and list(d.columns) == ['k', 'v']",
        "d['v'] = 0\nd['w'] = 1",
    ),
    Row(
        "polars frames",
        "import polars as pl\nd = pl.DataFrame({'k': list('abab'), 'v': range(4)})\nd.lazy().group_by('k').sum().collect()",
        "assert d['v'].sum() == 6",
        "d = None",
    ),
    Row(
        "duckdb connections",
        "import duckdb\nc = duckdb.connect()\nc.execute('create table t as select range i from range(1000)')",
        "assert c.execute('select count(*) from t').fetchall() == [(1000,)]",
        "c.execute('drop table t')",
    ),
    Row(
        "duckdb, closed again",
        "import duckdb\nwith duckdb.connect('d.duckdb') as c:\n    c.execute('create table t as select 7 i')",
        "with duckdb.connect('d.duckdb') as c:\n    assert c.execute('select i from t').fetchall() == [(7,)]",
        "with duckdb.connect('d.duckdb') as c:\n    c.execute('drop table t')",
        on_disk=True,
    ),
    Row(
        "sqlite3 connections, in memory",
        "import sqlite3\nc = sqlite3.connect(':memory:')\nc.execute('create table t (i)')\n"
        "c.execute('insert into t values (1)')\nc.commit()",
        "assert c.execute('select count(*) from t').fetchone() == (1,)",
        "c.execute('insert into t values (2)')\nc.commit()",
    ),
    Row(
        "sqlite3 connections, to a file of the working directory",
        "import sqlite3\nc = sqlite3.connect('s.db')\nc.execute('create table t (i)')\n"
        "c.execute('insert into t values (1)')\nc.commit()\nc.execute('select * from t').fetchall()",
        "assert c.execute('select count(*) from t').fetchone() == (1,)\n"
        "with sqlite3.connect('s.db') as again:\n    again.execute('insert into t values (3)')\nagain.close()",
        "c.execute('insert into t values (2)')\nc.commit()",
        on_disk=True,
    ),
    Row(
        "matplotlib figures",
        "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nline, = ax.plot([1, 2, 3])",
        "assert list(ax.lines[0].get_ydata()) == [1, 2, 3]\nax.plot([3, 2, 1])\ndisplay(fig)",
        "ax.clear()\nplt.close('all')",
        shows="image/png",
    ),
    Row(
        "matplotlib showing figures by itself",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])",
        "plt.plot([3, 4])",
        "import matplotlib; matplotlib.use('agg')",
        shows="image/png",
    ),
    Row(
        "scikit-learn models (LogisticRegression)",
        "import numpy as np\nfrom sklearn.linear_model import LogisticRegression\n"
        "x = np.arange(40.0).reshape(20, 2)\ny = (x[:, 0] > 19).astype(int)\nmodel = LogisticRegression().fit(x, y)",
        "assert model.score(x, y) == 1 and LogisticRegression().fit(x, y).score(x, y) == 1",
        "model.coef_[:] = 0",
    ),
    Row(
        "scikit-learn models that use OpenMP (KMeans)",
        "import numpy as np\nfrom sklearn.cluster import KMeans\nx = np.random.default_rng(1).random((4000, 8))\n"
        "model = KMeans(4, n_init=2, random_state=1).fit(x)\nwas = model.predict(x)",
        "assert (model.predict(x) == was).all()\n"
        "assert KMeans(4, n_init=2, random_state=1).fit(x).n_iter_ == model.n_iter_",
        "model.cluster_centers_[:] = 0",
    ),
]

LANGUAGE = [
    Row(
        "functions and closures",
        "def make():\n    count = 0\n    def more():\n        nonlocal count\n        count += 1\n        return count\n"
        "    return more\nf = make(); f()\nimport functools\n@functools.cache\ndef slow(n):\n    return [n]\nkept = slow(3)",
        "assert f() == 2 and slow(3) is kept",
        "f(); f = None; slow.cache_clear()",
    ),
    Row(
        "classes, and pickles of their objects",
        "import pickle\nclass Point:\n    def __init__(self, x):\n        self.x = x\np = Point(3)\ndata = pickle.dumps(p)",
        "q = pickle.loads(data)\nassert type(q) is Point and q.x == p.x == 3 and Point.__module__ == '__main__'",
        "class Point: pass",
    ),
    Row(
        "generators, iterators, coroutines that wait",
        "import types\ndef count():\n    yield from range(9)\ng = count(); next(g)\ni = iter([1, 2, 3]); next(i)\n"
        "@types.coroutine\ndef once():\n    return (yield 1)\nasync def main():\n    return await once()\nc = main(); c.send(None)",
        "assert (next(g), next(i)) == (1, 2)\ntry:\n    c.send(5)\nexcept StopIteration as done:\n    assert done.value == 5",
        "next(g); next(i); c.close()",
    ),
    Row(
        "imported modules, and what was changed in them",
        "import json, sys\njson.mine = [1]\nopen('own.py', 'w').write('value = 1')\nsys.path.insert(0, '')\nimport own",
        "import own\nassert own.value == 1 and json.mine == [1] and 'colorsys' not in sys.modules and sys.path[0] == ''",
        "import importlib, colorsys\nopen('own.py', 'w').write('value = 22')\nimportlib.reload(own)\n"
        "json.mine.append(2)\ndel sys.path[0]",
        on_disk=True,
    ),
    Row(
        "`random`",
        "import random\nrandom.seed(5)\nrandom.gauss(0, 1)\nstate = random.getstate()\ntwin = random.Random()\n"
        "twin.setstate(state)\nexpected = [twin.gauss(0, 1) for _ in range(9)]",
        "assert [random.gauss(0, 1) for _ in range(9)] == expected",
        "random.random()",
    ),
    Row(
        "weak references, locks, context variables, thread locals",
        "import contextvars, threading, weakref\nclass A: pass\na = A(); ref = weakref.ref(a)\nlock = threading.Lock(); lock.acquire()\n"
        "var = contextvars.ContextVar('var', default=0)\nlocal = threading.local(); local.x = 1",
        "assert ref() is a and lock.locked() and local.x == 1 and var.get() == 0",
        "del a; lock.release(); local.x = 2",
    ),
    Row(
        "decimal's context",
        "import decimal\ndecimal.getcontext().prec = 5\none = decimal.Decimal(1) / 3",
        "assert decimal.Decimal(1) / 3 == one, decimal.getcontext()",
        "decimal.getcontext().prec = 9",
    ),
    Row(
        "warnings' filters, loggers and their handlers",
        "import logging, sys, warnings\nwarnings.simplefilter('error', UserWarning)\nlog = logging.getLogger('mine')\n"
        "log.setLevel('INFO')\nlog.addHandler(logging.StreamHandler(sys.stdout)); log.addHandler(logging.FileHandler('l.txt'))\n"
        "log.info('first')",
        "import io\nassert [type(h).__name__ for h in log.handlers] == ['StreamHandler', 'FileHandler']\nlog.info('second')\n"
        "assert open('l.txt').read() == 'first\\nsecond\\n', open('l.txt').read()\n"
        "try:\n    warnings.warn('w')\nexcept UserWarning:\n    pass\nelse:\n    raise AssertionError",
        "warnings.resetwarnings(); log.info('other'); log.handlers.clear()",
        shows="stream",
    ),
    Row(
        "the garbage collector's settings, the recursion limit, hooks and signal handlers",
        "import atexit, gc, signal, sys\ngc.disable(); gc.set_threshold(500, 5, 5); sys.setrecursionlimit(2000)\n"
        "def handler(*_): pass\nsignal.signal(signal.SIGUSR1, handler)\nsys.audit_mine = 1",
        "assert not gc.isenabled() and gc.get_threshold() == (500, 5, 5) and sys.getrecursionlimit() == 2000\n"
        "assert signal.getsignal(signal.SIGUSR1) is handler",
        "gc.enable(); gc.set_threshold(700); sys.setrecursionlimit(1500); signal.signal(signal.SIGUSR1, signal.SIG_DFL)",
    ),
    Row(
        "the environment, the current directory, the umask",
        "import os\nos.makedirs('sub/deep'); os.chdir('sub/deep'); os.environ['MINE'] = '1'; mask = os.umask(0o027)",
        "assert os.getcwd().endswith('/sub/deep') and os.environ['MINE'] == '1' and os.umask(0o077) == 0o027\n"
        "import subprocess\nassert subprocess.run('echo $MINE; pwd', shell=True, capture_output=True, text=True)"
        ".stdout.split() == ['1', os.getcwd()]\nopen('here', 'w').close()",
        "os.chdir('../..'); import shutil; shutil.rmtree('sub'); os.environ['MINE'] = '2'; os.umask(0o077)",
        on_disk=True,
    ),
]

IPYTHON = [
    Row(
        "IPython: `In`, `Out`, magics, callbacks, formatters, `%autoreload`",
        "ip = get_ipython()\nran = []\ndef note(): ran.append(1)\nip.events.register('post_execute', note)\nclass P: pass\n"
        "ip.display_formatter.formatters['text/html'].for_type(P, lambda p, *_: '<b>mine</b>')\n"
        "from IPython.core.magic import register_line_magic\n@register_line_magic\ndef mine(line): return line * 2\n"
        "%load_ext autoreload\n%autoreload 2\nopen('auto.py', 'w').write('v = 1')\nimport sys; sys.path.insert(0, '')\n"
        "import auto\n6 * 7",
        "before = len(ran)\nassert before == 1, ran\nassert Out and 42 in Out.values() and 'ip = get' in In[1]\n"
        "assert ip.run_line_magic('mine', 'ab') == 'abab' and ip is get_ipython()\ndisplay(P())",
        "ip.events.unregister('post_execute', note); Out.clear(); ip.magics_manager.magics['line'].pop('mine')\n"
        "ip.display_formatter.formatters['text/html'].pop(P)",
        shows="text/html",
    ),
    Row(
        "widgets",
        "import ipywidgets\ns = ipywidgets.IntSlider(3)\nseen = []\ns.observe(lambda c: seen.append(c['new']), 'value')\ndisplay(s)",
        "assert s.value == 3 and not seen\ns.value = 4\nassert seen == [4]\n"
        "assert s.comm.comm_id in get_ipython().kernel.comm_manager.comms\ndisplay(s)",
        "s.value = 8",
        shows="application/vnd.jupyter.widget-view+json",
    ),
]

SYSTEM = [
    Row(
        "files open for reading",
        "open('r.txt', 'w').write('one\\ntwo\\nthree\\n')\nf = open('r.txt'); f.readline()\nb = open('r.txt', 'rb', 0); b.read(2)",
        "assert f.readline() == 'two\\n' and b.read(2) == b'e\\n'",
        "f.read(); b.read()",
        on_disk=True,
    ),
    Row(
        "files open for writing",
        "f = open('w.txt', 'w'); f.write('one\\n'); f.flush(); f.write('two\\n')\na = open('a.txt', 'a'); a.write('x'); a.flush()",
        "f.write('three\\n'); f.flush(); assert open('w.txt').read() == 'one\\ntwo\\nthree\\n', open('w.txt').read()\n"
        "a.write('z'); a.flush(); assert open('a.txt').read() == 'xz'",
        "f.write('other\\n' * 9); f.close(); a.write('yyy'); a.close()",
        on_disk=True,
    ),
    Row(
        "directories open",
        "import os\nos.mkdir('d'); open('d/x', 'w').close(); fd = os.open('d', os.O_RDONLY)",
        "assert os.listdir(fd) == ['x']; os.close(os.open('y', os.O_CREAT | os.O_WRONLY, dir_fd=fd)); assert os.path.exists('d/y')",
        "import shutil; shutil.rmtree('d'); os.close(fd)",
        on_disk=True,
    ),
    Row(
        "open files without a name",
        "import tempfile\nf = tempfile.TemporaryFile('w+'); f.write('abc'); f.flush()",
        "f.seek(0); f.read()",
        "f.write('def'); f.flush()",
    ),
    Row(
        "locks on files",
        "import fcntl\nf = open('lock', 'w'); fcntl.flock(f, fcntl.LOCK_EX)",
        "g = open('lock', 'w'); fcntl.flock(g, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        on_disk=True,
    ),
    Row(
        "threads that run",
        "import threading\ngo = threading.Event()\nt = threading.Thread(target=go.wait, name='mine'); t.start()",
        "assert t.is_alive(); go.set(); t.join()",
    ),
    Row(
        "threads that have ended",
        "import threading\nt = threading.Thread(target=int); t.start(); t.join()\n"
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(2) as pool: r = pool.submit(int)",
        "assert not t.is_alive() and r.result() == 0\nwith ThreadPoolExecutor(2) as pool: assert pool.submit(int).result() == 0",
        "t = r = None",
    ),
    Row(
        "pools of threads or processes that were not shut down",
        "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2); pool.submit(int).result()",
        "assert pool.submit(int).result() == 0",
    ),
    Row(
        "asyncio tasks that run",
        "import asyncio\nasync def forever(): await asyncio.sleep(1e6)\ntask = asyncio.get_running_loop().create_task(forever())",
        "task.cancel()",
    ),
    Row(
        "asyncio tasks that are done",
        "import asyncio\nasync def soon(): return 5\ntask = asyncio.get_running_loop().create_task(soon()); await task",
        "assert task.result() == 5 and await asyncio.get_running_loop().create_task(soon()) == 5",
        "task = None",
    ),
    Row(
        "asyncio's timers and callbacks to come",
        "import asyncio\nhandle = asyncio.get_running_loop().call_later(1e6, int)",
        "assert not handle.cancelled()",
    ),
    Row(
        "event loops of one's own",
        "import asyncio\nloop = asyncio.new_event_loop()",
        "try:\n    loop.call_soon(int)\nfinally:\n    loop.close()",
    ),
    Row(
        "child processes that run",
        "import subprocess\nchild = subprocess.Popen(['sleep', '1000'])",
        "child.poll()",
    ),
    Row(
        "child processes that have ended",
        "import subprocess\nchild = subprocess.Popen(['sh', '-c', 'exit 3']); child.wait()",
        "assert child.returncode == child.poll() == 3 and subprocess.run(['true']).returncode == 0",
        "child = None",
    ),
    Row(
        "multiprocessing's shared memory",
        "from multiprocessing import shared_memory\ns = shared_memory.SharedMemory(create=True, size=10, track=False) "
        "if __import__('sys').version_info >= (3, 13) else shared_memory.SharedMemory(create=True, size=10)\ns.buf[0] = 1",
        "s.buf[0]",
        "s.buf[0] = 2",
    ),
    Row(
        "anonymous memory maps (`mmap.mmap(-1, …, flags=mmap.MAP_PRIVATE)`)",
        "import mmap\nm = mmap.mmap(-1, 10000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m[:3] = b'one'",
        "assert m[:3] == b'one'",
        "m[:3] = b'two'",
    ),
    Row(
        "sockets",
        "import socket\ns = socket.socket(socket.AF_UNIX); s.bind('s.sock'); s.listen()",
        "try:\n    s.accept()\nexcept OSError:\n    pass\nelse:\n    raise AssertionError",
    ),
    Row("pairs of sockets", "import socket\na, b = socket.socketpair(); a.send(b'x')", "a, b", "b.recv(1)"),
    Row("pipes", "import os\nr, w = os.pipe(); os.write(w, b'x')", "r, w", "os.read(r, 1)"),
    Row("selectors", "import selectors\ns = selectors.DefaultSelector()", "s"),
    Row(
        "the system's timers (`signal.setitimer`)",
        "import signal\nsignal.setitimer(signal.ITIMER_REAL, 1000)",
        "signal",
    ),
    Row(
        "links, permissions and empty directories in the working directory",
        "import os, stat\nopen('f', 'w').write('x'); os.chmod('f', 0o640); os.symlink('f', 'l'); os.mkdir('e')",
        "assert stat.S_IMODE(os.stat('f').st_mode) == 0o640 and os.readlink('l') == 'f' and os.listdir('e') == []",
        "os.chmod('f', 0o600); os.unlink('l'); os.symlink('e', 'l'); os.rmdir('e')",
        on_disk=True,
    ),
    Row(
        "moving files between directories",
        "import os\nos.makedirs('p/q'); open('p/q/f', 'w').write('x'); os.mkdir('r')",
        "os.replace('p/q/f', 'r/f'); assert os.listdir('r') == ['f'] and not os.listdir('p/q')",
        "os.replace('p/q/f', 'p/g'); os.rmdir('r')",
        on_disk=True,
    ),
    Row(
        "files outside the working directory",
        "open('/tmp/t.txt', 'w').write('one')",
        "import os; os.path.exists('/tmp/t.txt')",
        "open('/tmp/t.txt', 'w').write('two')",
        is_outside=True,
    ),
]

ROWS = [*DATA, *LANGUAGE, *IPYTHON, *SYSTEM]
