"""Pictures as matplotlib really draws them."""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Callable, Sequence

import matplotlib as mpl
import numpy as np
import pytest

from cellwright.notebook.comparison import same_bytes, same_look

mpl.use("agg")
from matplotlib.figure import Figure  # after the backend is chosen
from PIL import Image

from tests.matrix import first_of


@functools.cache
def bars(values: Sequence[float] = (1, 5, 3), *, title: str = "Sales", dpi: int = 100) -> bytes:
    figure = Figure(dpi=dpi)
    axes = figure.subplots()
    axes.bar(range(len(values)), values)
    axes.set_ylim(0, 10)
    axes.set_title(title)
    return drawn(figure)


@functools.cache
def curve(shift: float = 0.0, *, antialiased: bool = True) -> bytes:
    figure = Figure()
    axes = figure.subplots()
    x = np.linspace(0, 6, 200)
    axes.plot(x, np.sin(x + shift), antialiased=antialiased)
    axes.set_ylim(-1.2, 1.2)
    return drawn(figure)


def drawn(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def saved_again(data: bytes, form: str) -> bytes:
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(data)) as image:
        image.convert("RGB").save(buffer, form, quality=92)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("then", "now"),
    first_of(
        [
            (bars, lambda: saved_again(bars(), "PNG")),
            (bars, lambda: saved_again(bars(), "JPEG")),
            (curve, lambda: curve(antialiased=False)),
            (curve, lambda: curve(0.002)),
        ],
        2,
    ),
    ids=["other metadata", "other format", "other smoothing", "less than a pixel"],
)
def test_what_looks_the_same_is_the_same(then: Callable[[], bytes], now: Callable[[], bytes]) -> None:
    assert then() != now()
    assert same_look(then(), now()) is None


@pytest.mark.parametrize(
    ("then", "now"),
    first_of(
        [
            (bars, lambda: bars((1, 5.2, 3))),
            (bars, lambda: bars((1, 5))),
            (bars, lambda: bars(title="Sales 2")),
            (lambda: bars(title="n = 3"), lambda: bars(title="n = 8")),
            (curve, lambda: curve(0.05)),
        ],
        3,
    ),
    ids=["a higher bar", "a bar less", "a word more", "another digit", "a curve aside"],
)
def test_what_shows_something_else_is_noticed(then: Callable[[], bytes], now: Callable[[], bytes]) -> None:
    assert "shows something else" in (same_look(then(), now()) or "")


def test_another_size_is_another_picture() -> None:
    assert "640 by 480 became 320 by 240" in (same_look(bars(), bars(dpi=50)) or "")


def test_what_is_no_picture_is_compared_by_its_bytes() -> None:
    assert same_look(b"%PDF-1", b"%PDF-2") == same_bytes(b"%PDF-1", b"%PDF-2")
    assert same_look(b"\x89PNG broken", bars()) is not None


def test_without_pillow_bytes_are_compared_and_the_reason_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    then, now = bars(), saved_again(bars(), "PNG")
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert same_look(then, then) is None
    assert "pip install cellwright[images]" in (same_look(then, now) or "")
