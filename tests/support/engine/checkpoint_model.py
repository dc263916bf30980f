"""A session's state as plain data, and what cells may do to it: each deed changes the data and tells its code.

No kernel here. ``test_checkpoint_model`` runs the code in one and holds the two against each other.
"""

from __future__ import annotations

import copy
import posixpath
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

__all__ = ["DEEDS", "PRELUDE", "Deed", "State", "probe_code"]

ROOT = "w"
LISTS = ("a", "b", "c")
DIRECTORIES = ("one", "one/two", "three")
FILES = ("f", "g", "one/f", "one/two/f", "three/g")
MODULES = ("colorsys", "filecmp", "mailbox", "sched", "stringprep", "wave")
VARIABLES = ("MODEL_ONE", "MODEL_TWO")
SEED = 7

PRELUDE = f"""
import hashlib, os, pickle, random, shutil, sys
import numpy as np
os.makedirs({ROOT!r}); os.chdir({ROOT!r})
a, b, c, d, m, x, drawn = [], [], [], {{}}, np.zeros(5, dtype='int64'), 0, []
random.seed({SEED}); np.random.seed({SEED}); rng = np.random.default_rng({SEED})
def f(n): return n
class K: value = 0
k = K()

def _files(root):
    found = {{}}
    for folder, folders, names in os.walk(root):
        for name in [*folders, *names]:
            path = os.path.join(folder, name)
            told = os.path.relpath(path, root)
            if os.path.islink(path):
                found[told] = 'link ' + os.readlink(path)
            elif os.path.isdir(path):
                found[told] = 'directory'
            else:
                with open(path) as file:
                    found[told] = oct(os.stat(path).st_mode & 0o777) + ' ' + file.read()
    return sorted(found.items())

def _probe(root, modules, variables):
    return {{
        'lists': [a, b, c], 'same': [a is b, b is c, a is c, d.get('list') is a], 'd': sorted(d.items()), 'm': m.tolist(),
        'x': x, 'drawn': drawn, 'f': f(0), 'K': K.value, 'k': type(pickle.loads(pickle.dumps(k))).value if type(k) is K else None,
        'own': k.__class__.value, 'modules': [name for name in modules if name in sys.modules],
        'variables': [os.environ.get(name) for name in variables], 'files': _files(root),
        'cwd': os.path.relpath(os.getcwd(), root),
    }}
"""


def probe_code(state: State) -> str:
    """A cell that tells all that the model knows."""
    return f"print(_probe({state.to('')!r}, {list(state.modules_known)!r}, {list(VARIABLES)!r}))"


@dataclass(repr=False)
class State:
    """Everything, with values that are the same object where the kernel's are."""

    values: dict[str, Any] = field(
        default_factory=lambda: {"a": [], "b": [], "c": [], "d": {}, "x": 0, "drawn": []}
    )
    m: Any = field(default_factory=lambda: np.zeros(5, dtype="int64"))
    files: dict[str, str] = field(default_factory=dict)
    cwd: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)
    modules_known: tuple[str, ...] = ()
    function: int = 0
    kind: int = 0
    made_of: int = 0
    """The class that the object is of."""
    kind_number: int = 0
    """Rises with each definition: two classes of one value are two."""
    made_of_number: int = 0
    numbers: random.Random = field(default_factory=lambda: random.Random(SEED))
    legacy: Any = field(default_factory=lambda: np.random.RandomState(SEED))
    generator: Any = field(default_factory=lambda: np.random.default_rng(SEED))

    def copy(self) -> State:
        return copy.deepcopy(self)

    def to(self, path: str) -> str:
        """The way to a path from where the kernel works."""
        return posixpath.relpath(posixpath.join("/", path), posixpath.join("/", self.cwd))

    def probe(self) -> dict[str, Any]:
        lists = [self.values[name] for name in LISTS]
        a, b, c = lists
        d = self.values["d"]
        return {
            "lists": lists,
            "same": [a is b, b is c, a is c, d.get("list") is a],
            "d": sorted(d.items()),
            "m": self.m.tolist(),
            "x": self.values["x"],
            "drawn": self.values["drawn"],
            "f": self.function,
            "K": self.kind,
            "k": self.kind if self.kind_number == self.made_of_number else None,
            "own": self.made_of,
            "modules": [name for name in self.modules_known if name in self.modules],
            "variables": [self.variables.get(name) for name in VARIABLES],
            "files": sorted(self.files.items()),
            "cwd": self.cwd or ".",
        }


Deed = Callable[[State], str]
"""Changes the state as its code, which it returns, changes a kernel's."""

# Values -------------------------------------------------------------------------------------------------------------


def _assign(name: str, number: int) -> Deed:
    def deed(state: State) -> str:
        state.values[name] = [number]
        return f"{name} = [{number}]"

    return deed


def _alias(name: str, other: str) -> Deed:
    def deed(state: State) -> str:
        state.values[name] = state.values[other]
        return f"{name} = {other}"

    return deed


def _append(name: str, number: int) -> Deed:
    def deed(state: State) -> str:
        state.values[name].append(number)
        return f"{name}.append({number})"

    return deed


def _put_in(key: str, number: int) -> Deed:
    def deed(state: State) -> str:
        state.values["d"][key] = number
        return f"d[{key!r}] = {number}"

    return deed


def _nest(state: State) -> str:
    state.values["d"]["list"] = state.values["a"]
    return "d['list'] = a"


def _empty(state: State) -> str:
    state.values["d"].clear()
    return "d.clear()"


def _in_array(place: int, number: int) -> Deed:
    def deed(state: State) -> str:
        state.m[place] += number
        return f"m[{place}] += {number}"

    return deed


def _count(state: State) -> str:
    state.values["x"] += 1
    return "x += 1"


# Numbers ------------------------------------------------------------------------------------------------------------


def _draw(state: State) -> str:
    state.values["drawn"].append(state.numbers.random())
    return "drawn.append(random.random())"


def _draw_normal(state: State) -> str:
    state.values["drawn"].append(state.numbers.gauss(0, 1))
    return "drawn.append(random.gauss(0, 1))"


def _draw_legacy(state: State) -> str:
    state.values["drawn"].append(float(state.legacy.rand()))
    return "drawn.append(float(np.random.rand()))"


def _draw_generator(state: State) -> str:
    state.values["drawn"].append(int(state.generator.integers(1000)))
    return "drawn.append(int(rng.integers(1000)))"


def _seed(state: State) -> str:
    state.numbers.seed(SEED)
    return f"random.seed({SEED})"


def _forget_drawn(state: State) -> str:
    state.values["drawn"] = []
    return "drawn = []"


# Code ---------------------------------------------------------------------------------------------------------------


def _define_function(number: int) -> Deed:
    def deed(state: State) -> str:
        state.function = number
        return f"def f(n): return n + {number}"

    return deed


def _define_class(number: int) -> Deed:
    def deed(state: State) -> str:
        state.kind = number
        state.kind_number += 1
        return f"class K: value = {number}"

    return deed


def _make_object(state: State) -> str:
    state.made_of, state.made_of_number = state.kind, state.kind_number
    return "k = K()"


def _import(choice: int) -> Deed:
    def deed(state: State) -> str:
        name = state.modules_known[choice % len(state.modules_known)]
        state.modules.add(name)
        return f"import {name}"

    return deed


def _set_variable(name: str, value: str) -> Deed:
    def deed(state: State) -> str:
        state.variables[name] = value
        return f"os.environ[{name!r}] = {value!r}"

    return deed


def _drop_variable(name: str) -> Deed:
    def deed(state: State) -> str:
        state.variables.pop(name, None)
        return f"os.environ.pop({name!r}, None)"

    return deed


# Files --------------------------------------------------------------------------------------------------------------


def _make_parents(state: State, path: str) -> str:
    parent = posixpath.dirname(path)
    return _make_directory(parent)(state) if parent else "pass"


def _make_directory(path: str) -> Deed:
    def deed(state: State) -> str:
        for end in range(1, len(parts := path.split("/")) + 1):
            state.files.setdefault("/".join(parts[:end]), "directory")
        return f"os.makedirs({state.to(path)!r}, exist_ok=True)"

    return deed


def _write(path: str, text: str) -> Deed:
    def deed(state: State) -> str:
        before = _make_parents(state, path)
        gone = f"if os.path.islink({state.to(path)!r}): os.remove({state.to(path)!r})"
        mode = state.files.get(path, "0o644 ").split(" ")[0]
        mode = mode if mode.startswith("0o") else "0o644"
        state.files[path] = f"{mode} {text}"
        return f"{before}\n{gone}\nwith open({state.to(path)!r}, 'w') as _file: _file.write({text!r})"

    return deed


def _add_to(path: str, text: str) -> Deed:
    def deed(state: State) -> str:
        if not state.files.get(path, "").startswith("0o"):
            return "pass"
        state.files[path] += text
        return f"with open({state.to(path)!r}, 'a') as _file: _file.write({text!r})"

    return deed


def _remove(path: str) -> Deed:
    def deed(state: State) -> str:
        return f"os.remove({state.to(path)!r})" if state.files.pop(path, None) is not None else "pass"

    return deed


def _rename(path: str, other: str) -> Deed:
    def deed(state: State) -> str:
        if path not in state.files or path == other:
            return "pass"
        before = _make_parents(state, other)
        state.files[other] = state.files.pop(path)
        return f"{before}\nos.replace({state.to(path)!r}, {state.to(other)!r})"

    return deed


def _close_to_others(path: str) -> Deed:
    def deed(state: State) -> str:
        if not state.files.get(path, "").startswith("0o"):
            return "pass"
        state.files[path] = "0o600 " + state.files[path].split(" ", 1)[1]
        return f"os.chmod({state.to(path)!r}, 0o600)"

    return deed


def _link(path: str, target: str) -> Deed:
    def deed(state: State) -> str:
        if path in state.files:
            return "pass"
        before = _make_parents(state, path)
        state.files[path] = f"link {target}"
        return f"{before}\nos.symlink({target!r}, {state.to(path)!r})"

    return deed


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


def _remove_tree(path: str) -> Deed:
    def deed(state: State) -> str:
        if path not in state.files or _is_in(state.cwd, path):
            return "pass"
        state.files = {name: what for name, what in state.files.items() if not _is_in(name, path)}
        return f"shutil.rmtree({state.to(path)!r})"

    return deed


def _rename_tree(state: State) -> str:
    """Of a directory with all that it holds."""
    if "one" not in state.files or "three" in state.files or _is_in(state.cwd, "one"):
        return "pass"
    state.files = {
        f"three{name.removeprefix('one')}" if _is_in(name, "one") else name: what
        for name, what in state.files.items()
    }
    # An overlay cannot rename a directory of the layer below; this then copies it, as people's programs do.
    return f"shutil.move({state.to('one')!r}, {state.to('three')!r})"


def _go_to(path: str) -> Deed:
    def deed(state: State) -> str:
        if path and path not in state.files:
            return "pass"
        code = f"os.chdir({state.to(path)!r})"
        state.cwd = path
        return code

    return deed


_numbers = st.integers(0, 99)
_names = st.sampled_from(LISTS)
_files = st.sampled_from(FILES)
_directories = st.sampled_from(DIRECTORIES)
_texts = st.sampled_from(["", "one", "two\n", "x" * 300])
_variables = st.sampled_from(VARIABLES)

DEEDS: dict[str, st.SearchStrategy[Deed]] = {
    "values": st.one_of(
        st.builds(_assign, _names, _numbers),
        st.builds(_alias, _names, _names),
        st.builds(_append, _names, _numbers),
        st.builds(_put_in, st.sampled_from("pq"), _numbers),
        st.builds(_in_array, st.integers(0, 4), _numbers),
        st.sampled_from([_nest, _empty, _count]),
    ),
    "numbers": st.sampled_from([_draw, _draw_normal, _draw_legacy, _draw_generator, _seed, _forget_drawn]),
    "code": st.one_of(
        st.builds(_define_function, _numbers),
        st.builds(_define_class, _numbers),
        st.just(_make_object),
        st.builds(_import, _numbers),
        st.builds(_set_variable, _variables, st.sampled_from(["", "v"])),
        st.builds(_drop_variable, _variables),
    ),
    "files": st.one_of(
        st.builds(_write, _files, _texts),
        st.builds(_add_to, _files, _texts),
        st.builds(_remove, _files),
        st.builds(_rename, _files, _files),
        st.builds(_close_to_others, _files),
        st.builds(_link, _files, st.sampled_from(["f", "nowhere"])),
        st.builds(_make_directory, _directories),
        st.builds(_remove_tree, _directories),
        st.just(_rename_tree),
        st.builds(_go_to, st.sampled_from(["", *DIRECTORIES])),
    ),
}
