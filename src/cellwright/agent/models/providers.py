"""The providers: which adapter speaks to each, where it is, and what its key is called. Ours are in ``_own_providers``.

An adapter is imported when somebody speaks to its provider, and has ``connect(row, keys) -> Speaker``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import anyio
import anyio.to_thread

from cellwright.agent.models.table import ModelRow
from cellwright.errors import NoModel
from cellwright.plugins.registry import registry

__all__ = [
    "Key",
    "Keys",
    "Provider",
    "every_provider",
    "find_keys",
    "keep_key",
    "key_variables",
    "no_model",
    "variable_of",
]


@dataclass(frozen=True, slots=True)
class Provider:
    """Who serves models."""

    module: str
    keyring_user: str = ""
    key_variables: tuple[str, ...] = ()
    address: str = ""
    address_variable: str | None = None
    extra: str = "agent"
    """What is to be installed for it."""
    key_needed: bool = True
    rows: tuple[ModelRow, ...] = ()
    """Its models, where the table has none of them; the first is its default."""


def every_provider() -> dict[str, Provider]:
    """All providers by their names, ours first."""
    return {plugin.entry.name: provider for plugin, provider in registry().every("providers")}


# Keys and addresses of providers: from the environment of whoever asks, else from the keyring.

SERVICE = "cellwright"
"""What the keyring knows us by; the user there is the provider's name."""

KEYRING_S = 2.0

_SHORTEST_SECRET = 4

_FIRST_STEPS = """\
Set one of OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or XAI_API_KEY, and ask again;
or name as the model a server that speaks OpenAI's format, http://localhost:8000/v1#model;
or a small one on this machine, local, which says what it needs"""


def key_variables() -> tuple[str, ...]:
    """The variables that a MCP server passes on from whoever asks."""
    return tuple(
        dict.fromkeys(
            name
            for provider in every_provider().values()
            for name in (*provider.key_variables, *filter(None, [provider.address_variable]))
        )
    )


class Key:
    """A secret. Shows nothing of itself."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return "Key(…)"

    def reveal(self) -> str:
        return self._value


@dataclass(frozen=True, slots=True)
class Keys:
    """What opens providers, and where they are."""

    found: Mapping[str, Key] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 300.0
    """How long a provider may say nothing."""

    def has(self, provider: str) -> bool:
        return provider in self.found

    def of(self, provider: str) -> str:
        """The key of a provider, as its library wants it.

        Raises:
            NoModel: there is none.
        """
        if provider not in self.found:
            variables = " or ".join(every_provider()[provider].key_variables)
            raise NoModel(
                f"There is no key for {provider}",
                hint=f"Set {variables}, or run `keyring set {SERVICE} {every_provider()[provider].keyring_user}`",
            )
        return self.found[provider].reveal()

    def address(self, provider: str) -> str:
        return self.addresses.get(provider, every_provider()[provider].address)

    def secrets(self) -> tuple[str, ...]:
        """All keys, for whoever takes them out of what is written. The longest first: one may hold another."""
        every = {key.reveal() for key in self.found.values() if len(key.reveal()) >= _SHORTEST_SECRET}
        return tuple(sorted(every, key=len, reverse=True))


async def find_keys(
    environment: Mapping[str, str], providers: Iterable[str], *, timeout_s: float = 300.0
) -> Keys:
    """The keys that there are for these providers. Asks the keyring only for those that the environment lacks."""
    found: dict[str, Key] = {}
    addresses: dict[str, str] = {}
    wanted = list(dict.fromkeys(name for name in providers if every_provider()[name].key_variables))
    for name in wanted:
        provider = every_provider()[name]
        values = (environment.get(variable, "").strip() for variable in provider.key_variables)
        if value := next(filter(None, values), None):
            found[name] = Key(value)
        address = environment.get(provider.address_variable or "", "").strip()
        if address:
            addresses[name] = address
    missing = {every_provider()[name].keyring_user for name in wanted if name not in found}
    kept = await _from_keyring(sorted(missing)) if missing else {}
    for name in wanted:
        value = kept.get(every_provider()[name].keyring_user)
        if name not in found and value:
            found[name] = Key(value)
    return Keys(found, addresses, timeout_s)


def no_model() -> NoModel:
    """What somebody is told who has no key at all: three lines."""
    return NoModel(
        "No model is set up, and a question needs one",
        hint=_FIRST_STEPS,
    )


def variable_of(provider: str) -> str:
    """The variable that a provider's key is looked for in first.

    Raises:
        NoModel: it has none.
    """
    known = every_provider().get(provider)
    if known is None or not known.key_variables:
        wanted = ", ".join(name for name, one in every_provider().items() if one.key_variables)
        raise NoModel(f"{provider!r} takes no key", hint=f"Choose from: {wanted}")
    return known.key_variables[0]


async def keep_key(provider: str, value: str) -> bool:
    """Put a provider's key into the keyring; whether it is there, for there may be none."""
    kept: list[bool] = []
    writer = threading.Thread(target=_write_keyring, args=(provider, value, kept), daemon=True)

    def write() -> None:
        writer.start()
        writer.join(KEYRING_S)

    await anyio.to_thread.run_sync(write)
    return bool(kept)


def _write_keyring(provider: str, value: str, kept: list[bool]) -> None:
    try:
        import keyring  # as below

        user = every_provider()[provider].keyring_user
        keyring.set_password(SERVICE, user, value)
        if keyring.get_password(SERVICE, user) == value:
            kept.append(True)
    except Exception:  # noqa: BLE001  # boundary: backends fail in ways of their own, and then nothing is kept
        return


async def _from_keyring(users: list[str]) -> dict[str, str]:
    """What the keyring holds for these users; nothing where there is none, or where it does not answer."""
    kept: dict[str, str] = {}
    reader = threading.Thread(target=_read_keyring, args=(users, kept), daemon=True)

    def read() -> None:
        reader.start()
        # A keyring may wait for somebody to unlock it; nobody may be there. The thread is left to itself then.
        reader.join(KEYRING_S)

    await anyio.to_thread.run_sync(read)
    return dict(kept)


def _read_keyring(users: list[str], kept: dict[str, str]) -> None:
    try:
        import keyring  # only where somebody asks, and its backends take their time
    except ImportError:
        return
    for user in users:
        try:
            value = keyring.get_password(SERVICE, user)
        except Exception:  # noqa: BLE001  # boundary: backends fail in ways of their own, and then there is no key
            return
        if value and value.strip():
            kept[user] = value.strip()
