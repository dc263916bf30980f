"""The user at a browser: follows the link that a program opens, signs in on the page, and answers its question."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from urllib.parse import parse_qsl, urlsplit

import httpx2


@dataclass
class User:
    """Somebody with the token of the page."""

    token: str
    scope: str | None = None
    """What they choose that the program may do; what it asked for by default."""
    says_no: bool = False
    read: str = ""
    """The question, as it stood on the page."""

    async def answers(self, url: str) -> dict[str, str]:
        """Go where a program sends the browser, and answer; what the program is told at the end."""
        return told(await self.ends_at(url))

    async def ends_at(self, url: str) -> str:
        """The same; the address that tells the program."""
        async with httpx2.AsyncClient(follow_redirects=True) as http:
            page = await http.get(url)
            if page.url.path == "/enter":
                given = {"token": self.token, "next": page.url.params["next"]}
                page = await http.post(str(page.url.copy_with(query=None)), data=given)
            self.read = unescape(page.text)
            assert page.status_code == 200, page.text
            found = re.search(r'<meta name="csrf" content="([^"]+)">', page.text)
            asked = re.findall(r'<option value="(\w+)" selected>', page.text)
            assert found is not None
            deed = "refuse" if self.says_no else "allow"
            done = await http.post(
                f"{page.url}/{deed}",
                data={"scope": self.scope or asked[0]},
                headers={"x-cellwright-page": found[1]},
            )
            assert done.status_code == 200, done.text
            return str(done.json()["go"])


def told(url: str) -> dict[str, str]:
    """What an answer that goes back to a program says."""
    return dict(parse_qsl(urlsplit(url).query))
