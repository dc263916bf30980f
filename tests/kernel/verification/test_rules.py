from __future__ import annotations

import pytest

from cellwright.errors import NotebookError
from cellwright.notebook import CellAdded, Document
from cellwright.verification import MaskPattern, Volatile, parse_mask
from cellwright.verification._rehearsal import applied, declared_in, mask_outputs
from cellwright.verification._verifier import random_sources

pytestmark = pytest.mark.anyio


def test_a_cells_rules_come_on_top_of_the_notebooks_and_the_callers_on_top_of_both() -> None:
    whole = declared_in({"cellwright": {"verify": {"mask": ["times"], "tolerance": 1e-6}}}, whose="it")
    own = declared_in({"cellwright": {"verify": {"mask": [{"pattern": "a+", "as": "A"}]}}}, whose="it")
    found = applied(whole, own, Volatile(tolerance=0.1))
    assert (found.rules.tolerance, found.patterns) == (0.1, (MaskPattern("a+", "A"),))
    assert applied(whole).rules.tolerance == 1e-6
    assert len(found.rules.masks) > len(applied().rules.masks)


@pytest.mark.parametrize(
    "declared",
    [
        {"mask": ["everything"]},
        {"mask": "times"},
        {"mask": [{"pattern": "a" * 301}]},
        {"mask": [{"pattern": "a", "to": "b"}]},
        {"mask": ["times"] * 21},
        {"tolerance": 2},
        {"tolerance": -1},
        {"masks": []},
        [],
    ],
)
def test_what_cannot_be_understood_is_refused_with_how_to_write_it(declared: object) -> None:
    with pytest.raises(NotebookError, match="of cell x cannot be understood") as refusal:
        declared_in({"cellwright": {"verify": declared}}, whose="cell x")
    assert "times, dates, uuids, paths" in (refusal.value.hint or "")


def test_a_word_is_a_name_where_there_is_one_and_a_pattern_otherwise() -> None:
    assert (parse_mask("times"), parse_mask("time")) == ("times", MaskPattern("time"))


async def test_patterns_are_masked_in_every_text_and_a_stream_is_one_text() -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "run 1"},
        {"output_type": "display_data", "data": {"text/plain": ["run 3\n", "x"], "image/png": "run 4"}},
        {"output_type": "stream", "name": "stdout", "text": "2 end"},
        {"output_type": "error", "ename": "E", "evalue": "run 5", "traceback": []},
    ]
    assert await mask_outputs(outputs, [MaskPattern(r"run \d+", r"\1 N")]) == [
        {"output_type": "stream", "name": "stdout", "text": r"\1 N end"},
        {"output_type": "display_data", "data": {"text/plain": "\\1 N\nx", "image/png": "run 4"}},
        {"output_type": "error", "ename": "E", "evalue": r"\1 N", "traceback": []},
    ]


async def test_a_pattern_that_never_ends_is_ended() -> None:
    outputs = [{"output_type": "stream", "name": "stdout", "text": "a" * 40 + "b"}]
    with pytest.raises(NotebookError, match="took more than"):
        await mask_outputs(outputs, [MaskPattern("(a+)+$")], limit_s=1)


async def test_a_pattern_that_is_none_is_told() -> None:
    with pytest.raises(NotebookError, match=r"The pattern \(a cannot be used"):
        await mask_outputs([{"output_type": "stream", "name": "stdout", "text": "a"}], [MaskPattern("(a")])


@pytest.mark.parametrize(
    ("sources", "calls"),
    [
        (("import random", "random.random()"), ["random.random"]),
        (("random.seed(1)", "random.random()"), []),
        (("rng = np.random.default_rng()", "x = rng.normal()", "x"), ["np.random.default_rng"]),
        (("rng = np.random.default_rng(5)", "x = rng.normal()", "x"), []),
        (("df = load()", "df.sample(3)"), ["df.sample"]),
        (("df = load()", "df.sample(3, random_state=1)"), []),
        (("random.seed(1)", "uuid.uuid4()"), ["uuid.uuid4"]),
        (("y = random.random()", "1 + 1"), []),
    ],
)
def test_random_numbers_without_a_seed_are_found_where_they_come_from(
    sources: tuple[str, ...], calls: list[str]
) -> None:
    document = Document.new()
    for place, source in enumerate(sources):
        document.apply(CellAdded("abc"[place], "code", source, place))
    found = random_sources(document.cells, "abc"[len(sources) - 1])
    assert [one.call for one in found] == calls
