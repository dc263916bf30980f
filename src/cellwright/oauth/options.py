"""The sign-in options of a listener: read from the settings by the command line, passed on to the daemon and its successor."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

import msgspec

from cellwright.errors import CellwrightError

if TYPE_CHECKING:
    from cellwright.settings.model import SignInSettings

__all__ = ["OWN", "SignInOptions", "SignInRefused", "UnknownConnectRequest"]

OWN = "own"
"""The name of our own issuer in the settings."""

_DAY_S = 86_400.0


class SignInRefused(CellwrightError):
    """The settings ask for a sign-in that this server cannot offer."""

    code = "sign_in_refused"


class UnknownConnectRequest(CellwrightError):
    """A client's request that was answered, is too old, or never was."""

    code = "unknown_connect_request"

    def __init__(self) -> None:
        super().__init__("No program waits for this answer", hint="Begin the sign-in again, in the program")


class SignInOptions(msgspec.Struct, frozen=True):
    """Who issues tokens for a listener, to whom, and for how long."""

    issuer: str
    url: str | None = None
    audience: str | None = None
    subjects: tuple[str, ...] = ()
    token_s: float = 3600.0
    idle_s: float = 30 * _DAY_S
    client_hosts: tuple[str, ...] = ()
    """The hosts whose client ID metadata documents are read."""

    @classmethod
    def of(cls, settings: SignInSettings) -> Self | None:
        """The options that the settings hold; None where they name no issuer.

        Raises:
            SignInRefused: the settings name an OpenID issuer, and no subjects.
        """
        if settings.oauth_issuer is None:
            return None
        if settings.oauth_issuer != OWN and not settings.oauth_subjects:
            raise SignInRefused(
                f"No setting names the users whom tokens of {settings.oauth_issuer} let in",
                hint="Set oauth_subjects to their `sub` or email, or to * for everybody it gives a token for this server",
            )
        return cls(
            settings.oauth_issuer,
            settings.oauth_url,
            settings.oauth_audience,
            settings.oauth_subjects,
            settings.oauth_token_s,
            settings.oauth_idle_days * _DAY_S,
            settings.oauth_client_hosts,
        )

    @property
    def host(self) -> str | None:
        """The name under which clients address the listener, where the settings give an address."""
        return urlsplit(self.url).hostname if self.url is not None else None

    def base_url(self, listener_url: str) -> str:
        """Where clients reach the listener.

        Raises:
            SignInRefused: the listener is bound to every address, and the settings name none.
        """
        if self.url is not None:
            return self.url
        host = urlsplit(listener_url).hostname or ""
        if ipaddress.ip_address(host).is_unspecified:
            raise SignInRefused(
                f"{host} is no address that a token can be for",
                hint="Set oauth_url to the address by which clients reach this server",
            )
        return listener_url
