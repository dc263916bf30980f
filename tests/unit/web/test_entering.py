"""What decides who gets in, without a browser: waits, codes, signed cookies, paths, and who has which token."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import replace
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from itsdangerous import TimestampSigner, URLSafeSerializer, URLSafeTimedSerializer

from cellwright.people import (
    Members,
    PeopleError,
    Person,
    add_member,
    change_role,
    read_members,
    remove_member,
)
from cellwright.web.auth import own_path, sign_in_path
from cellwright.web.identities import LASTS_S, Attempts, Codes, Identities, obtain_key

KEY = b"k" * 32


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def mistaken(attempts: Attempts, address: str, times: int) -> None:
    for _ in range(times):
        attempts.wrong(address)


# Waiting -------------------------------------------------------------------------------------------------------------


def test_four_mistakes_cost_nothing_and_each_further_one_doubles_the_wait() -> None:
    attempts = Attempts(Clock())
    mistaken(attempts, "one", 4)
    waits = [attempts.wait_s("one")]
    for _ in range(4):
        attempts.wrong("one")
        waits.append(attempts.wait_s("one"))
    assert waits == [0, 1, 2, 4, 8]


def test_who_goes_on_guessing_is_kept_to_five_a_minute_and_nobody_waits_longer_than_that_takes() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    guesses, longest = 0, 0.0
    while clock.now < 1000 + 600:
        attempts.wrong("one")
        guesses += 1
        longest = max(longest, attempts.wait_s("one"))
        clock.now += attempts.wait_s("one")
    assert guesses <= 5 * 10 + 10
    assert longest <= 16


def test_mistakes_are_forgotten() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    mistaken(attempts, "one", 8)
    clock.now += 8 * 12
    mistaken(attempts, "one", 4)
    assert attempts.wait_s("one") == 0


def test_a_stranger_does_not_keep_others_waiting_but_many_strangers_do_for_a_moment() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    mistaken(attempts, "stranger", 50)
    assert attempts.wait_s("somebody else") == 0
    for number in range(5000):
        attempts.wrong(f"stranger {number}")
    assert 0 < attempts.wait_s("somebody else") <= 60


# Codes ---------------------------------------------------------------------------------------------------------------


def test_a_code_is_good_once_and_for_two_minutes() -> None:
    clock = Clock()
    codes = Codes(clock)
    first, second = codes.issue(), codes.issue()
    assert not codes.redeem("")
    assert codes.redeem(first)
    assert not codes.redeem(first)
    clock.now += 121
    assert not codes.redeem(second)


# Cookies -------------------------------------------------------------------------------------------------------------


@given(st.text() | st.builds(lambda *parts: ".".join(parts), st.text(), st.text(), st.text()))
def test_a_cookie_that_was_not_signed_here_is_nobodys(text: str) -> None:
    assert identities(Path("none")).with_cookie(text) is None


def test_a_cookie_that_was_changed_or_signed_with_another_key_is_nobodys(tmp_path: Path) -> None:
    who = identities(tmp_path)
    cookie = who.cookie(who.owner)
    assert replace(who, key=b"j" * 32).with_cookie(cookie) is None
    others = [
        cookie[:at] + ("A" if cookie[at] != "A" else "B") + cookie[at + 1 :] for at in range(len(cookie) - 1)
    ]
    assert [one for one in others if who.with_cookie(one) is not None] == []


@pytest.mark.parametrize(("age_s", "good"), [(LASTS_S - 60, True), (LASTS_S + 60, False)])
def test_a_cookie_is_good_for_thirty_days(age_s: int, *, good: bool) -> None:
    class Earlier(TimestampSigner):
        def get_timestamp(self) -> int:
            return super().get_timestamp() - age_s

    who = identities(Path("none"))
    name_and_stamp = URLSafeSerializer(KEY).loads_unsafe(who.cookie(who.owner).split(".")[0] + ".")[1]
    options = {"digest_method": hashlib.sha256}
    serializer = URLSafeTimedSerializer(KEY, salt="cookie", signer=Earlier, signer_kwargs=options)
    assert (who.with_cookie(str(serializer.dumps(name_and_stamp))) == who.owner) is good


def test_a_key_that_was_not_written_to_the_end_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "page.key"
    path.touch()
    key = obtain_key(path)
    assert len(key) == 32
    assert obtain_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# Paths ---------------------------------------------------------------------------------------------------------------

HERE = "http://127.0.0.1:8765"


@given(st.text(alphabet=st.sampled_from("/\\.:@?#%\t\n\r abc")) | st.text())
def test_wherever_a_link_says_to_go_it_is_a_place_of_this_page(text: str) -> None:
    # Browsers drop these, and take one slash for the other.
    seen = "".join(each for each in own_path(text) if each not in "\t\r\n").replace("\\", "/")
    found = urlsplit(urljoin(HERE + "/enter", seen))
    assert f"{found.scheme}://{found.netloc}" == HERE


@pytest.mark.parametrize("path", ["/", "/sessions/s-4k2m", "/sessions/s-1?cell=3&x=a%20b", "/chat/c-1"])
def test_places_of_the_page_are_kept(path: str) -> None:
    assert own_path(path) == path


def test_who_wanted_to_go_somewhere_signs_in_with_it_remembered() -> None:
    assert sign_in_path("/sessions/s-1?x=1") == "/enter?next=%2Fsessions%2Fs-1%3Fx%3D1"
    assert sign_in_path("//elsewhere.example") == "/enter"


# People --------------------------------------------------------------------------------------------------------------


def identities(storage: Path, token: str = "the owner's own token") -> Identities:  # noqa: S107  # a test's
    return Identities(token, KEY, Members(storage))


def test_everybody_is_known_by_their_token_and_by_the_cookie_they_got_for_it(tmp_path: Path) -> None:
    who = identities(tmp_path)
    token = add_member(tmp_path, "Ann Lee", "run")
    ann = who.with_token(token)
    assert ann == Person("Ann Lee", "run")
    assert who.with_cookie(who.cookie(ann)) == ann
    assert who.with_token("the owner's own token") == Person("owner", "own")
    assert who.with_token(token + "x") is None
    assert who.with_token("") is None


def test_a_token_is_kept_nowhere_and_its_file_is_for_this_user_alone(tmp_path: Path) -> None:
    token = add_member(tmp_path, "Ann", "view")
    file = tmp_path / "people.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token.encode() not in b"".join(one.read_bytes() for one in tmp_path.iterdir())


def test_a_changed_role_holds_at_once_and_a_removal_too(tmp_path: Path) -> None:
    who = identities(tmp_path)
    token = add_member(tmp_path, "Ann", "view")
    cookie = who.cookie(Person("Ann", "view"))
    change_role(tmp_path, "Ann", "own")
    assert who.with_cookie(cookie) == Person("Ann", "own")
    remove_member(tmp_path, "Ann")
    assert who.with_cookie(cookie) is None
    assert who.with_token(token) is None
    add_member(tmp_path, "Ann", "view")
    assert who.with_cookie(cookie) is None, "another of the same name is somebody else"


def test_another_token_of_the_listener_ends_its_owners_cookies(tmp_path: Path) -> None:
    cookie = identities(tmp_path).cookie(Person("owner", "own"))
    assert identities(tmp_path).with_cookie(cookie) is not None
    assert identities(tmp_path, "another token").with_cookie(cookie) is None


@pytest.mark.parametrize("name", ["", "owner", " Ann", "a\nb", "x" * 65, "<script>"])
def test_names_that_would_mislead_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PeopleError):
        add_member(tmp_path, name, "view")
    assert read_members(tmp_path) == {}


def test_a_file_of_people_that_cannot_be_read_lets_nobody_in_but_the_owner(tmp_path: Path) -> None:
    token = add_member(tmp_path, "Ann", "view")
    who = identities(tmp_path)
    (tmp_path / "people.json").write_text("[{")
    os.utime(tmp_path / "people.json", ns=(1, 1))
    assert who.with_token(token) is None
    assert who.with_token("the owner's own token") is not None
    with pytest.raises(PeopleError):
        add_member(tmp_path, "Bob", "view")


def test_somebody_who_cannot_be_written_down_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "full").write_text("where the directory should be")
    with pytest.raises(PeopleError, match=r"people.json cannot be written.*Nothing was changed"):
        add_member(tmp_path / "full", "Ada", "view")
