"""Which Jupyter server a host's name means, out of the settings. Reads a token's file, and asks nobody.

How servers are spoken with is ``rest``'s, ``hubs``' and ``channels``'.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from cellwright.errors import UnknownHost
from cellwright.hosts.protocol import JupyterServer
from cellwright.settings.model import JupyterServerSettings, JupyterSettings

__all__ = [
    "is_loopback",
    "joined",
    "jupyter_kernelspec",
    "jupyter_server",
    "jupyter_servers",
    "websocket_url",
]

UNNAMED = "jupyter"


def jupyter_servers(settings: JupyterSettings) -> tuple[str | None, ...]:
    """Which servers there are, by what follows ``jupyter:``; None is the one without a name."""
    return (*((None,) if settings.jupyter_url else ()), *settings.jupyter_servers)


def jupyter_server(settings: JupyterSettings, name: str | None = None) -> JupyterServer:
    """The server of a host ``jupyter`` or ``jupyter:NAME``, with what opens it.

    Raises:
        UnknownHost: the settings have none of that name, or what they say cannot be used; says what to set.
    """
    told = _told(settings, name)
    where = f"jupyter_servers.{name}." if name is not None else "jupyter_"
    _refuse_bad_url(told.url, where, insecure_http=settings.jupyter_insecure_http)
    return JupyterServer(
        name=name or UNNAMED,
        url=told.url.rstrip("/"),
        token=_token(told, where),
        username=told.username,
        start_s=settings.jupyter_start_timeout_s,
        unreachable_s=settings.jupyter_unreachable_s,
    )


def jupyter_kernelspec(settings: JupyterSettings, name: str | None = None) -> str:
    """The kernelspec that the settings name for a server; none where it is to fit the language."""
    return _told(settings, name).kernel


def _told(settings: JupyterSettings, name: str | None) -> JupyterServerSettings:
    if name is not None:
        if name not in settings.jupyter_servers:
            known = ", ".join(f"jupyter:{one}" for one in settings.jupyter_servers) or "none"
            raise UnknownHost(
                f"The settings have no Jupyter server {name!r}; by name there are: {known}",
                hint=f"Add [jupyter_servers.{name}] with url and token_file to your cellwright.toml",
            )
        return settings.jupyter_servers[name]
    if settings.jupyter_url is None:
        raise UnknownHost(
            "The settings have no Jupyter server",
            hint="Set jupyter_url and jupyter_token_file (or CELLWRIGHT_JUPYTER_URL and CELLWRIGHT_JUPYTER_TOKEN)",
        )
    return JupyterServerSettings(
        url=settings.jupyter_url,
        token=settings.jupyter_token,
        token_file=settings.jupyter_token_file,
        username=settings.jupyter_username,
        kernel=settings.jupyter_kernel,
    )


def _refuse_bad_url(url: str, where: str, *, insecure_http: bool) -> None:
    split = urlsplit(url)
    if split.scheme not in ("http", "https") or not split.hostname:
        # What is not understood may hold a secret, so it is not shown.
        raise UnknownHost(f"{where}url is no address", hint="Give one that begins with https:// or http://")
    if split.query or split.fragment or split.username is not None:
        raise UnknownHost(
            f"{where}url must be the plain address of {split.hostname}, without a token or a name in it",
            hint=f"Put the token into {where}token_file",
        )
    if split.scheme == "http" and not (insecure_http or is_loopback(url)):
        raise UnknownHost(
            f"{where}url sends the token to {split.hostname} unencrypted",
            hint="Give its https:// address, reach it through a tunnel on 127.0.0.1, or set jupyter_insecure_http",
        )


def _token(told: JupyterServerSettings, where: str) -> str:
    if told.token is not None:
        return told.token.get_secret_value()
    if told.token_file is None:
        return ""
    try:
        return Path(told.token_file).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UnknownHost(
            f"{where}token_file {told.token_file} cannot be read: {why}",
            hint="Correct it, or set the token itself",
        ) from None


# Addresses of Jupyter servers, with their tokens. Pure; ``rest``, ``hubs`` and ``channels`` connect to them.


def joined(url: str, *parts: str) -> str:
    """An address below another; what is special in a part is quoted."""
    return "/".join((url.rstrip("/"), *(quote(part, safe="") for part in parts)))


def websocket_url(url: str) -> str:
    """The same address for a WebSocket."""
    split = urlsplit(url)
    return urlunsplit(split._replace(scheme="wss" if split.scheme == "https" else "ws"))


def is_loopback(url: str) -> bool:
    """Whether an address is this machine's own, so that nobody in between can listen."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
