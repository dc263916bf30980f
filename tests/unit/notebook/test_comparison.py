from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cellwright.notebook import Rules, compare_outputs

Json = dict[str, Any]
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def stream(text: str, name: str = "stdout") -> Json:
    return {"output_type": "stream", "name": name, "text": text}


def result(**data: Any) -> Json:
    formats = {name.replace("_", "/"): value for name, value in data.items()}
    return {"output_type": "execute_result", "data": formats, "metadata": {}, "execution_count": 1}


def display(**data: Any) -> Json:
    return {**result(**data), "output_type": "display_data"}


def error(ename: str, evalue: str, traceback: list[str] | None = None) -> Json:
    return {"output_type": "error", "ename": ename, "evalue": evalue, "traceback": traceback or []}


def why(expected: list[Json], got: list[Json], **rules: Any) -> list[str]:
    found = compare_outputs(expected, got, Rules(**rules)).differences
    return [f"{difference.output}: {difference.why}" for difference in found]


texts = st.text() | st.from_regex(r"[a-z .,:=\n\x1b\[\]0-9x/_-]{0,40}")
outputs = st.lists(
    st.one_of(
        st.builds(stream, texts, st.sampled_from(["stdout", "stderr"])),
        st.builds(lambda text: result(text_plain=text), texts),
        st.builds(lambda text: display(text_plain=text, text_html=[text, "\n"]), texts),
        st.builds(lambda data: display(image_png=base64.b64encode(data).decode()), st.binary()),
        st.builds(error, texts, texts),
    ),
    max_size=6,
)


@given(outputs)
def test_outputs_are_the_same_as_themselves(one: list[Json]) -> None:
    assert compare_outputs(one, one).same


@given(outputs, outputs)
def test_what_differs_one_way_differs_the_other_way(one: list[Json], other: list[Json]) -> None:
    there, back = compare_outputs(one, other), compare_outputs(other, one)
    assert there.same == back.same
    assert len(there.differences) + there.more == len(back.differences) + back.more


@given(st.lists(texts, min_size=1, max_size=5), st.data())
def test_how_a_stream_was_cut_into_pieces_does_not_matter(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    place = data.draw(st.integers(0, len(text)))
    assert compare_outputs(
        [stream(piece) for piece in pieces], [stream(text[:place]), stream(text[place:])]
    ).same


@given(texts, texts, NUMBERS, NUMBERS)
def test_a_number_that_changed_by_more_than_the_tolerance_is_found(
    before: str, after: str, then: float, today: float
) -> None:
    assume(abs(then - today) > 2e-9 * max(abs(then), abs(today)))
    found = compare_outputs(
        [stream(f"{before} {then!r} {after}")], [stream(f"{before} {today!r} {after}")]
    ).differences
    # What a mask takes out whole is not looked at, and these texts may hold the beginning of one.
    assume("\x1b" not in before)
    assert len(found) == 1
    assert found[0].output == "stdout"


@given(st.floats(1e-300, 1e300), st.floats(-9e-10, 9e-10))
def test_numbers_within_the_tolerance_are_the_same(number: float, change: float) -> None:
    assert compare_outputs([stream(f"x = {number!r}\n")], [stream(f"x = {number * (1 + change)!r}\n")]).same


@given(st.integers(), st.integers())
def test_whole_numbers_are_compared_exactly(then: int, today: int) -> None:
    assume(then != today)
    assert not compare_outputs([stream(f"{then} rows")], [stream(f"{today} rows")]).same


def test_the_tolerance_can_be_another() -> None:
    assert why([stream("0.5")], [stream("0.51")]) == ["stdout: 0.5 became 0.51"]
    assert why([stream("0.5")], [stream("0.51")], tolerance=0.1) == []


def test_numbers_too_large_for_a_float_are_not_all_the_same() -> None:
    assert not compare_outputs([stream("1e999")], [stream("1e998")]).same
    assert not compare_outputs([stream("1" * 5_000)], [stream("2" * 5_000)]).same


def test_versions_and_words_with_digits_are_text() -> None:
    assert why([stream("numpy 1.2.3 x1")], [stream("numpy 1.2.4 x1")]) == ["stdout: the text differs"]
    assert why([stream("x1")], [stream("x2")]) == ["stdout: the text differs"]


@pytest.mark.parametrize(
    ("then", "today"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;link\x1b\\text", "text"),
        ("<object at 0x7f3a12345678>", "<object at 0x7f3a87654321>"),
        ("0x7f3a12345678", "0x55d012345678"),
        ("<ipython-input-3-abcdef012345>:1", "<ipython-input-9-0123456789ab>:1"),
        ("/scratch/ipykernel_12/345.py:1: Warning", "/scratch/ipykernel_99/1.py:1: Warning"),
        ("Cell In[3], line 1", "Cell In[7], line 1"),
        ("/scratch/tmpab12_xyz/data.csv", "/scratch/tmpzzzzzzzz/data.csv"),
    ],
)
def test_what_no_two_runs_have_in_common_does_not_count(then: str, today: str) -> None:
    assert compare_outputs([stream(then)], [stream(today)]).same


@pytest.mark.parametrize(
    ("then", "today"),
    [("0xff", "0xfe"), ("/scratch/result_a.csv", "/scratch/result_b.csv"), ("In[3]", "In[4]"), ("a ", "a")],
)
def test_what_only_looks_alike_counts(then: str, today: str) -> None:
    assert not compare_outputs([stream(then)], [stream(today)]).same


def test_an_error_is_its_type_and_message_and_not_its_traceback() -> None:
    one = error("KeyError", "'a'", ["frame 1"])
    assert why([one], [error("KeyError", "'a'", ["frame 2"])]) == []
    assert why([one], [error("KeyError", "'b'")]) == ["error: the text differs"]
    assert why([one], [error("ValueError", "'a'")]) == ["error: it is another error"]


def test_pictures_are_their_bytes_unless_somebody_else_judges_them() -> None:
    one, other = (display(image_png=base64.b64encode(data).decode()) for data in (b"one", b"other"))
    assert why([one], [other]) == ["display 1 image/png: the picture differs (3 bytes became 5)"]
    assert why([one], [other], pictures=lambda before, now: None) == []  # the rule's names
    wrapped = display(image_png=[base64.b64encode(b"one").decode() + "\n"])
    assert why([one], [wrapped]) == []


def test_displays_keep_their_order_and_none_may_be_missing_or_new() -> None:
    first, second = display(text_plain="first"), display(text_plain="second")
    assert why([first, second], [second, first]) == [
        "display 1 text/plain: the text differs",
        "display 2 text/plain: the text differs",
    ]
    assert why([first, second], [first]) == ["display 2: it is missing"]
    assert why([first], [first, result(text_plain="2")]) == ["result: it is new"]
    assert why([first], [error("E", "")]) == ["display 1: display_data became error"]
    assert why([first], [display(text_html="first")]) == ["display 1: it comes in other formats"]


def test_a_format_of_structured_data_is_compared_by_its_content() -> None:
    one = display(application_json={"a": 1, "b": [0.1]})
    assert why([one], [display(application_json={"b": [0.1], "a": 1})]) == []
    assert why([one], [display(application_json={"b": [0.2], "a": 1})]) == [
        "display 1 application/json: 0.1 became 0.2"
    ]


def test_a_widget_is_alive_in_one_kernel_only() -> None:
    view = "application_vnd.jupyter.widget-view+json"
    one, other = (display(**{view: {"model_id": name}}) for name in ("a1", "b2"))
    assert why([one], [other]) == []


def test_a_difference_shows_the_place_as_a_short_diff() -> None:
    lines = [f"line {number}" for number in range(1_000)]
    changed = [*lines[:500], "something else", *lines[501:]]
    (found,) = compare_outputs([stream("\n".join(lines))], [stream("\n".join(changed))]).differences
    assert found.diff.splitlines() == [
        "@@ line 501 @@",
        " line 499",
        "-line 500",
        "+something else",
        " line 501",
    ]
    assert "line 500" in found.expected
    assert "something else" in found.got


def test_what_is_shown_is_bounded() -> None:
    many = [display(text_plain="x" * 10_000 + str(number)) for number in range(100)]
    found = compare_outputs(many, [display(text_plain=f"{number}\n" * 10_000) for number in range(100)])
    assert (len(found.differences), found.more) == (20, 80)
    assert all(len(each.expected) + len(each.got) + len(each.diff) < 5_000 for each in found.differences)
