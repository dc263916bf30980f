from __future__ import annotations

import pytest

from cellwright.notebook import Rules, compare_outputs
from cellwright.notebook.comparison import ALWAYS, BY_NAME


def printed(text: str) -> list[dict[str, str]]:
    return [{"output_type": "stream", "name": "stdout", "text": text}]


def same(then: str, now: str, *names: str) -> bool:
    masks = (*ALWAYS, *(mask for name in names for mask in BY_NAME[name]))
    return compare_outputs(printed(then), printed(now), Rules(masks=masks)).same


@pytest.mark.parametrize(
    ("name", "then", "now"),
    [
        ("times", "at 2026-01-31T10:11:12.5Z", "at 2026-02-01 23:59:01+01:00"),
        ("times", "began 9:15 PM", "began 10:02 AM"),
        ("times", "took 1.25 s", "took 830 ms"),
        ("times", "3 minutes", "12 minutes"),
        ("times", "100%|##| 3/3 [00:01<00:00, 12.5it/s]", "100%|##| 3/3 [00:02<00:01, 9.1it/s]"),
        ("dates", "on 2026-01-31", "on 2025-12-01"),
        ("dates", "Sat Jan 31, 2026", "Sunday February 1, 2026"),
        ("dates", "31.01.2026", "1.2.2026"),
        ("uuids", "id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-e89b-12d3-a456-42661417400f"),
        ("paths", "in /opt/one/a.csv:", "in /srv/data/b.csv:"),
    ],
)
def test_what_is_declared_to_be_volatile_may_differ_and_nothing_else_does(
    name: str, then: str, now: str
) -> None:
    assert same(then, now, name)
    assert not same(then, now)
    assert not same(f"{then} and 1", f"{now} and 2", name)


@pytest.mark.parametrize(
    ("then", "now"),
    [("n = 3", "n = 4"), ("v1.2.3", "v1.2.4"), ("a/b", "a/c"), ("3.5", "4.5"), ("ratio 1:3", "x")],
)
def test_plain_results_are_not_taken_for_anything_volatile(then: str, now: str) -> None:
    assert not same(then, now, *BY_NAME)


def test_what_time_magics_say_is_always_masked() -> None:
    then = "CPU times: user 3 ms, sys: 1 ms, total: 4 ms\nWall time: 5.01 ms\nresult 4"
    now = "CPU times: user 30 ms, sys: 0 ns, total: 30 ms\nWall time: 31 ms\nresult 4"
    assert same(then, now)
    assert not same(then, now.replace("result 4", "result 5"))
    loop = "1.2 ms ± 30 µs per loop (mean ± std. dev. of 7 runs, 1,000 loops each)"
    assert same(loop, loop.replace("1.2 ms", "1.9 ms"))


def test_an_svg_of_matplotlib_may_have_other_ids_and_another_date() -> None:
    def drawn(text: str) -> list[dict[str, object]]:
        return [{"output_type": "display_data", "data": {"image/svg+xml": text}, "metadata": {}}]

    then = '<dc:date>2026-01-31T10:00</dc:date><path id="m1234567890"/><use href="#m1234567890" y="1"/>'
    now = '<dc:date>2026-02-01T11:00</dc:date><path id="mabcdef0123"/><use href="#mabcdef0123" y="1"/>'
    assert compare_outputs(drawn(then), drawn(now)).same
    assert not compare_outputs(drawn(then), drawn(now.replace('y="1"', 'y="2"'))).same
