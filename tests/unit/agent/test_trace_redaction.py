from __future__ import annotations

import base64
import html
import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cellwright.agent.trace.redaction import MARK, Redactor

KEY = "sk-ant-api03-" + "Zq7" * 20
secrets = st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=40).filter(
    lambda one: one not in MARK and MARK not in one
)
plain_secrets = st.text("ABCDEFGHIJKLM0123456789/+_", min_size=8, max_size=40)
harmless = st.text("nopqrstuvwxyz \\\"'%&;éß\n", max_size=30)


def values(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves | st.none() | st.booleans() | st.integers(-999, 999),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(harmless, inner, max_size=4),
        max_leaves=8,
    )


def twice_json(text: str) -> str:
    return json.dumps(json.dumps(text), ensure_ascii=False)


def all_escaped(text: str) -> str:
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


WRITINGS = {
    "as it is": str,
    "JSON": json.dumps,
    "JSON in JSON": twice_json,
    "every character escaped": all_escaped,
    "in a URL": lambda text: quote(text, safe=""),
    "in a form": quote_plus,
    "in a URL in a URL": lambda text: quote(quote(text, safe=""), safe=""),
    "HTML": html.escape,
}


@pytest.mark.parametrize("writing", WRITINGS)
@settings(max_examples=25)
@given(secret=secrets, before=harmless, after=harmless)
def test_no_secret_survives_in_any_writing(writing: str, secret: str, before: str, after: str) -> None:
    assume(not set(secret) & set(before + MARK + after))  # else it may begin before it is written
    written = WRITINGS[writing](secret)
    text = f"{before}{written}{after}"
    redactor = Redactor([secret])
    told = redactor.value({"one": text, "two": [text, {text: {"three": [[text]]}}]})
    quotes = 6
    for one in set(texts_of(told)) - {"one", "two", "three"}:
        assert secret not in one
        assert MARK in one
        assert len(one.replace(MARK, "")) <= len(before) + len(after) + quotes
    assert redactor.value(told) == told


@settings(max_examples=40)
@given(secret=secrets, before=st.binary(max_size=5), after=st.binary(max_size=5), url=st.booleans())
def test_no_secret_survives_inside_of_base64(secret: str, before: bytes, after: bytes, *, url: bool) -> None:
    code = base64.urlsafe_b64encode if url else base64.b64encode
    text = code(before + secret.encode() + after).decode()
    told = Redactor([secret]).text(f"Authorization: {text}")
    assert MARK in told
    assert len(told) < len(text) + len(MARK) + 16


@settings(max_examples=40)
@given(secret=plain_secrets, value=values(harmless))
def test_nothing_else_changes(secret: str, value: Any) -> None:
    assert Redactor([secret]).value({"kept": value}) == {"kept": value}


@settings(max_examples=40)
@given(secret=plain_secrets, before=harmless, after=harmless)
def test_what_stands_around_a_secret_stays(secret: str, before: str, after: str) -> None:
    before = before.rstrip("\\")  # a backslash there would be an escape of the secret's first character
    assert Redactor([secret]).text(f"{before}{secret}{after}") == f"{before}{MARK}{after}"


def test_a_number_that_is_a_secret_is_taken_out_too() -> None:
    assert Redactor(["1234567890"]).value([1234567890, 12.5, 91234567890.0, True]) == [MARK, 12.5, MARK, True]


def test_keys_that_differ_in_a_secret_only_stay_apart() -> None:
    told = Redactor(["first-secret", "second-secret"]).value({"first-secret": 1, "second-secret": 2})
    assert told == {MARK: 1, f"{MARK} 2": 2}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (KEY, MARK),
        (f"the key {KEY}, and more", f"the key {MARK}, and more"),
        (f'{{\\"a\\":\\"x\\n{KEY}\\"}}', f'{{\\"a\\":\\"x\\n{MARK}\\"}}'),
        ("AIza" + "Sy0_-" * 7, MARK),
        ("xai-" + "aB3" * 10, MARK),
        ("id AKIAIOSFODNN7EXAMPLE.", f"id {MARK}."),
        ("authorization: Bearer abc.DEF-123", f"authorization: Bearer {MARK}"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZDE=", f"Authorization: Basic {MARK}"),
        ("postgres://me:pass%20word@host/db?x=1", f"postgres://me:{MARK}@host/db?x=1"),
        ("https://host/a?key=abc123&b=2", f"https://host/a?key={MARK}&b=2"),
        ("host=h password=hunter2 user=u", f"host=h password={MARK} user=u"),
        ("x-api-key: abcdef123456", f"x-api-key: {MARK}"),
        ('aws_secret_access_key = "wJalrXUtnFEMI/K7MDENG"', f'aws_secret_access_key = "{MARK}"'),
        ('{"api_key": "abcdefghijkl"}', f'{{"api_key": "{MARK}"}}'),
    ],
)
def test_what_looks_like_a_key_is_taken_out_and_the_rest_stays(text: str, told: str) -> None:
    redactor = Redactor()
    assert redactor.text(text) == told
    assert redactor.text(told) == told


@pytest.mark.parametrize(
    "text",
    [
        "sk-learn-contrib-and-other-packages",
        "a task-force-of-the-year-2024-and-on",
        "password=os.environ['PASSWORD']",
        "connect(password=get_password())",
        "Basic statistics of the bearer bonds",
        "https://host:8080/path?page=2",
        "tokens=1200, key=value",
        "SELECT secret FROM t",
    ],
)
def test_ordinary_words_and_code_stay(text: str) -> None:
    assert Redactor().text(text) == text


def test_a_header_is_taken_out_whatever_is_in_it() -> None:
    told = Redactor().value({"Authorization": "whatever", "Accept": "text/html", "cookie": "a=b"})
    assert told == {"Authorization": MARK, "Accept": "text/html", "cookie": MARK}


def test_a_redactor_does_not_show_what_it_knows() -> None:
    assert KEY not in repr(Redactor([KEY]))


def texts_of(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [one for pair in value.items() for part in pair for one in texts_of(part)]
    if isinstance(value, list):
        return [one for part in value for one in texts_of(part)]
    return [value] if isinstance(value, str) else []
