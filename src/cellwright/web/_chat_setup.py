"""Keys and models that people enter on the page: handed to the data agent, which shows none of a key again."""

from __future__ import annotations

from starlette.responses import Response

from cellwright.errors import AgentError
from cellwright.web.requests import PageRequest, action, page

__all__ = ["ROUTES"]

PROVIDERS = {
    "openai": "OpenAI",
    "anthropic": "Anthropic",
    "google": "Google",
    "xai": "xAI",
    "compatible": "a server of your own",
}
_MOST_KEY = 4_096


async def _setup(request: PageRequest) -> Response:
    entered = request.site.delegate.entered_models()
    return request.fragment("chat_setup.html", providers=PROVIDERS, entered=entered)


async def _keep_key(request: PageRequest) -> Response:
    form = await request.form()
    provider, key = form.get("provider", ""), form.get("key", "").strip()
    if not key or len(key) > _MOST_KEY or not key.isprintable():
        raise AgentError("This is no key", hint="Paste the provider's key as a whole, in one line")
    kept = await request.site.delegate.keep_key(provider, key)
    where = "in this machine's keyring" if kept else "until Cellwright ends: this machine has no keyring"
    return request.done(f"The key for {PROVIDERS.get(provider, provider)} is kept {where}", go="/chat")


async def _add_model(request: PageRequest) -> Response:
    name = await request.site.delegate.add_model((await request.form()).get("address", "").strip())
    return request.done(f"{name} can be chosen", go="/chat")


async def _forget_model(request: PageRequest) -> Response:
    name = (await request.form()).get("name", "")
    request.site.delegate.forget_model(name)
    return request.done(f"{name} is forgotten", go="/chat")


ROUTES = [
    page("/chat/setup", _setup),
    action("/chat/keys", _keep_key, needs="own"),
    action("/chat/models", _add_model, needs="own"),
    action("/chat/models/forget", _forget_model, needs="own"),
]
