"""Where keys come from, and that they are shown to nobody."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends.null import Keyring as NoKeyring

from cellwright.agent.models import providers as keys_module
from cellwright.agent.models.connect import connect_models
from cellwright.agent.models.providers import Keys, find_keys, keep_key, key_variables, no_model, variable_of
from cellwright.errors import NoModel
from cellwright.settings import Settings
from tests.support.agent.wires.servers import KEY, reply, serve
from tests.support.agent.wires.talking import finished, question
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio
ALL = ("openai", "anthropic", "google", "xai")


class Kept(KeyringBackend):
    """A keyring with these keys; ``locked`` waits for somebody who does not come."""

    priority = 1  # type: ignore[assignment]

    def __init__(self, **kept: str) -> None:
        super().__init__()
        self.kept = kept
        self.locked: threading.Event | None = None

    def get_password(self, service: str, username: str) -> str | None:
        assert service == "cellwright"
        if self.locked is not None:
            self.locked.wait()
        return self.kept.get(username)

    def set_password(self, service: str, username: str, password: str) -> None:
        assert service == "cellwright"
        self.kept[username] = password

    def delete_password(self, service: str, username: str) -> None:
        raise NotImplementedError


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    # This one answers, however long it takes on a machine that is busy.
    monkeypatch.setattr(keys_module, "KEYRING_S", 60)
    before = keyring.get_keyring()
    ring = Kept()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(before)


async def test_keys_come_from_the_askers_environment_then_from_the_keyring(kept: Kept) -> None:
    kept.kept = {"openai": "from-the-ring", "anthropic": "from-the-ring"}
    found = await find_keys({"OPENAI_API_KEY": "from-outside", "GOOGLE_API_KEY": "  g  "}, ALL)
    assert {name: found.of(name) for name in found.found} == {
        "openai": "from-outside",
        "anthropic": "from-the-ring",
        "google": "g",
    }
    with pytest.raises(NoModel, match="XAI_API_KEY"):
        found.of("xai")


async def test_an_entered_key_goes_into_the_keyring_or_is_said_not_to_be_kept(kept: Kept) -> None:
    assert await keep_key("anthropic", "sk-entered")
    assert (await find_keys({}, ALL)).of("anthropic") == "sk-entered"
    keyring.set_keyring(NoKeyring())
    assert not await keep_key("anthropic", "sk-entered")
    with pytest.raises(NoModel, match="takes no key"):
        variable_of("local")


async def test_environment_of_this_process_is_not_read(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of-the-daemon")
    assert not (await find_keys({}, ALL)).found


async def test_locked_keyring_is_not_waited_for(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_module, "KEYRING_S", 0.01)
    kept.locked = threading.Event()
    with fail_after():
        found = await find_keys({"OPENAI_API_KEY": "k"}, ALL)
    kept.locked.set()
    assert set(found.found) == {"openai"}


async def test_key_is_in_no_repr(kept: Kept) -> None:
    found = await find_keys({"OPENAI_API_KEY": KEY}, ALL)
    assert KEY not in repr(found) + str(found) + repr(found.found)
    assert found.secrets() == (KEY,)


def test_secrets_are_the_longest_first() -> None:
    found = Keys(
        {name: keys_module.Key(value) for name, value in {"a": "abcd", "b": "abcdefgh", "c": "x"}.items()}
    )
    assert found.secrets() == ("abcdefgh", "abcd")


async def test_without_names_every_provider_with_a_key_is_asked_in_the_tables_order(kept: Kept) -> None:
    kept.kept = {"openai": "k"}
    async with await connect_models([], {"XAI_API_KEY": KEY}, Settings()) as chain:
        assert [row.provider for row in chain.rows] == ["openai", "xai"]
        assert chain.secrets == (KEY,)
    async with await connect_models([], {"XAI_API_KEY": KEY}, Settings(models=("grok-4.3",))) as chain:
        assert [row.name for row in chain.rows] == ["grok-4.3"]


async def test_without_any_key_three_lines_say_how_to_begin(kept: Kept) -> None:
    with pytest.raises(NoModel) as caught:
        await connect_models([], {}, Settings())
    assert str(caught.value) == str(no_model())
    assert len(str(caught.value.hint).splitlines()) == 3


async def test_server_of_ones_own_needs_no_key(kept: Kept) -> None:
    with serve([reply("Yes.")]) as server:
        async with await connect_models([f"{server.url}/v1#m"], {}, Settings()) as chain:
            assert (await finished(chain, question())).response.text == "Yes."
    assert server.requests[0].body["model"] == "m"


async def test_client_s_own_model_is_asked_where_there_is_no_key(kept: Kept) -> None:
    class Own:
        row = keys_module  # anything: it is only handed on

    own = Own()
    async with await connect_models([], {}, Settings(), speakers={"sampling": own}) as chain:  # type: ignore[dict-item]
        assert chain._speakers == (own,)


def test_every_variable_that_matters_is_listed() -> None:
    assert {
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "XAI_BASE_URL",
        "CELLWRIGHT_MODEL_KEY",
    } <= set(key_variables())


async def test_missing_library_is_answered_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xai_sdk", None)
    monkeypatch.delitem(sys.modules, "cellwright.agent.models._xai_grpc", raising=False)
    with pytest.raises(NoModel, match=r"pip install 'cellwright\[grok\]'"):
        await connect_models(["grok-grpc"], {"XAI_API_KEY": KEY}, Settings())


def test_no_providers_library_is_loaded_before_it_is_spoken_to() -> None:
    program = (
        "import sys, cellwright.agent.models.connect, cellwright.agent.models.providers\n"
        "print([name for name in ('openai', 'anthropic', 'google.genai', 'xai_sdk', 'keyring') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
