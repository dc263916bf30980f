"""Fetches that must be refused: what is asked, the reason that is told, and how a plain client falls for it.

``INSIDE`` addresses are real ones here: in the namespace of ``hostile_world`` every address leads to one server, which
tells who was reached. ``PUBLIC`` is one that anybody may reach.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["CASES", "HOSTS", "PUBLIC", "Case"]

PUBLIC = "93.184.216.34"
HOSTS = {
    "metadata.internal.example": "169.254.169.254",
    "intranet.example": "10.1.2.3",
    "inside6.example": "fd00::5",
    "blocked.example": PUBLIC,
    "alias.example": "93.184.216.99",
    "example.org.evil.example": PUBLIC,
    "evilexample.org": PUBLIC,
    "selfsigned.example": PUBLIC,
    "othername.example": PUBLIC,
    "expired.example": PUBLIC,
    "secure.example": PUBLIC,
}


@dataclass(frozen=True)
class Case:
    name: str
    url: str
    reason: str
    """Part of what the refusal says."""
    plain: str = "get"
    """Which client without a guard falls for it (see ``hostile_world``)."""
    settings: dict[str, Any] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def _leading_to(target: str) -> str:
    return f"http://{PUBLIC}/redirect?{target}"


_ADDRESSES = [
    Case("loopback", "http://127.0.0.1/", "is loopback"),
    Case("another loopback", "http://127.8.8.8/", "is loopback"),
    Case("a name for loopback", "http://localhost/", "is loopback"),
    Case("loopback of IPv6", "http://[::1]/", "is loopback"),
    Case("no address at all", "http://0.0.0.0/", "0.0.0.0, which is unspecified"),
    Case("an address as a number", "http://2130706433/", "unusual spelling"),
    Case("an address in hex", "http://0x7f000001/", "unusual spelling"),
    Case("an address partly in hex", "http://0x7f.0.0.1/", "unusual spelling"),
    Case("an address partly in octal", "http://0177.0.0.1/", "unusual spelling"),
    Case("an address in octal", "http://017700000001/", "unusual spelling"),
    Case("a short address", "http://127.1/", "unusual spelling"),
    Case("a mapped address", "http://[::ffff:127.0.0.1]/", "is loopback"),
    Case("a mapped address in hex", "http://[::ffff:7f00:1]/", "is loopback"),
    Case("a compatible address", "http://[::127.0.0.1]/", "in disguise (IPv4-compatible)"),
    Case("a translated address", "http://[64:ff9b::7f00:1]/", "in disguise (NAT64)"),
    Case("a tunnelled address", "http://[2002:7f00:1::]/", "in disguise (6to4)"),
    Case("a private address", "http://10.0.0.1/", "is private"),
    Case("a private address of companies", "http://172.16.5.4/", "is private"),
    Case("a private address of homes", "http://192.168.1.1/", "is private"),
    Case("a private address of IPv6", "http://[fc00::1]/", "is private"),
    Case("a site's address of IPv6", "http://[fec0::1]/", "is site-local"),
    Case("the cloud's metadata", "http://169.254.169.254/latest/meta-data/", "metadata service"),
    Case("another cloud's metadata", "http://100.100.100.200/", "metadata service"),
    Case("metadata at a public address", "http://168.63.129.16/", "metadata service"),
    Case("metadata over IPv6", "http://[fd00:ec2::254]/", "metadata service"),
    Case("a link-local address", "http://169.254.10.10/", "is link-local"),
    Case("a provider's own address", "http://100.64.0.1/", "provider's own network"),
    Case("an address for examples", "http://192.0.2.1/", "is private"),
    Case("an address for benchmarks", "http://198.18.0.1/", "reserved for benchmarks"),
    Case("a name for metadata", "http://metadata.internal.example/", "leads to 169.254.169.254"),
    Case("a name that leads inside", "http://intranet.example/", "leads to 10.1.2.3, which is private"),
    Case("a name that leads inside by IPv6", "http://inside6.example/", "leads to fd00::5, which is private"),
    Case(
        "a name that leads elsewhere the second time", "http://rebinding.example/", "", plain="check_then_get"
    ),
]
_SPELLINGS = [
    Case("digits in circles", "http://①②⑦.⓪.⓪.①/", "another script"),
    Case("wide digits", "http://１２７.０.０.１/", "another script"),
    Case("stops of another script", "http://127。0。0。1/", "another script"),
    Case("a letter in a circle", "http://ⓛocalhost/", "another script"),
    Case("a user name", "http://user:secret@10.0.0.1/", "user name or password"),
    Case("a host before an at", f"http://{PUBLIC}@10.0.0.1/", "user name or password"),
    Case("a backslash before an at", f"http://{PUBLIC}\\@10.0.0.1/", "backslash"),
    Case("a backslash for a slash", "http://10.0.0.1\\.example.org/", "backslash", plain="as_browsers_do"),
    Case("a fragment before an at", f"http://10.0.0.1#@{PUBLIC}/", "is private"),
    Case("a query before an at", f"http://10.0.0.1?@{PUBLIC}/", "is private"),
    Case("a header in the path", f"http://{PUBLIC}/x HTTP/1.1\r\nX-Injected: yes\r\nX-Rest:", "control characters", plain="raw"),
    Case("a second request", f"http://{PUBLIC}/x HTTP/1.1\r\nHost: x\r\n\r\nGET /injected", "control characters", plain="raw"),
    Case("a tab in the host", "http://10.0.\t0.1/", "control characters"),
    Case("a line end in the host", "http://10.0.0.\n1/", "control characters"),
    Case("a nul in the path", f"http://{PUBLIC}/\0injected", "control characters", plain="raw"),
    Case("a file", "file:///etc/hosts", "only http and https", plain="open_anything"),
    Case("data", "data:text/plain,canary", "not of the form", plain="open_anything"),
    Case("gopher", "gopher://10.0.0.1:80/", "only http and https"),
    Case("ftp", "ftp://10.0.0.1:80/", "only http and https"),
]  # fmt: skip
_POLICY = [
    Case("a closed network", f"http://{PUBLIC}/", "the network is closed (setting network)", settings={"network": "off"}),
    Case("a host that is not listed", f"http://{PUBLIC}/", "not on the allow-list", settings={"network": "allow", "network_allow": ["example.org"]}),
    Case("a port that is not listed", f"http://{PUBLIC}:8080/", "not on the allow-list", settings={"network": "allow", "network_allow": [PUBLIC]}),
    Case("a listed name as a prefix", "http://example.org.evil.example/", "not on the allow-list", settings={"network": "allow", "network_allow": ["*.example.org"]}),
    Case("a listed name as an ending", "http://evilexample.org/", "not on the allow-list", settings={"network": "allow", "network_allow": ["*.example.org", "example.org"]}),
    Case("a denied name", "http://blocked.example/", "on the deny-list", settings={"network_deny": ["blocked.example"]}),
    Case("a denied address by another name", "http://alias.example/", "on the deny-list", settings={"network_deny": ["93.184.216.0/25"]}),
    Case("a listed name that leads inside", "http://intranet.example/", "which is private", settings={"network": "allow", "network_allow": ["intranet.example"]}),
]  # fmt: skip
_REDIRECTS = [
    Case("a redirect to loopback", _leading_to("http://127.0.0.1/"), "is loopback", plain="follow"),
    Case("a redirect to metadata", _leading_to("http://169.254.169.254/"), "metadata service", plain="follow"),
    Case("a redirect without a scheme", _leading_to("//10.0.0.1/"), "is private", plain="follow"),
    Case("a redirect to a number", _leading_to("http://2130706433/"), "unusual spelling", plain="follow"),
    Case("a redirect to a name inside", _leading_to("http://intranet.example/"), "leads to 10.1.2.3", plain="follow"),
    Case("a redirect to a file", _leading_to("file:///etc/hosts"), "only http and https", plain="follow"),
    Case("a redirect with a password", _leading_to("http://u:p@10.0.0.1/"), "user name or password", plain="follow"),
    Case("a redirect with backslashes", _leading_to("\\\\10.0.0.1/"), "backslash", plain="follow"),
    Case("a redirect by way of others", _leading_to(_leading_to(_leading_to("http://10.0.0.1/"))), "is private", plain="follow"),
    Case("a redirect out of encryption", f"https://secure.example/redirect?http://{PUBLIC}/", "not encrypted", plain="follow"),
    Case("redirects without end", f"http://{PUBLIC}/loop?0", "more than 10 times", plain="follow_on"),
]  # fmt: skip
_BODIES = [
    Case("a gzip bomb", f"http://{PUBLIC}/bomb/gzip", "received, decoded (setting max_download_bytes)", plain="decode"),
    Case("a deflate bomb", f"http://{PUBLIC}/bomb/deflate", "received, decoded", plain="decode"),
    Case("a bomb of many parts", f"http://{PUBLIC}/bomb/members", "received, decoded", plain="decode"),
    Case("more parts than anybody needs", f"http://{PUBLIC}/bomb/empty-members", "more than 1000 parts", plain="decode"),
    Case("a bomb in a bomb", f"http://{PUBLIC}/bomb/nested", "only gzip, deflate were asked for", plain="decode"),
    Case("a coding nobody asked for", f"http://{PUBLIC}/bomb/zstd", "only gzip, deflate were asked for", plain="decode"),
    Case("a body without end", f"http://{PUBLIC}/endless", "bytes received (setting max_download_bytes)", plain="take"),
    Case("chunks without end", f"http://{PUBLIC}/endless/chunks", "bytes received", plain="take"),
    Case("more than may be, and announced", f"http://{PUBLIC}/announced", "bytes received", plain="take"),
    Case("a head without end", f"http://{PUBLIC}/endless/head", "not HTTP", plain="take"),
    Case("too many headers", f"http://{PUBLIC}/headers", "more than 200 headers", plain="take"),
    Case("preliminaries without end", f"http://{PUBLIC}/endless/interim", "preliminaries", plain="take"),
    Case("two lengths", f"http://{PUBLIC}/lengths", "Content-Length is not one plain number", plain="take"),
    Case("a head that drips", f"http://{PUBLIC}/slow/head", "fetch_timeout_s", plain="take", settings={"fetch_timeout_s": 0.5}),
    Case("a body that drips", f"http://{PUBLIC}/slow/body", "fetch_timeout_s", plain="take", settings={"fetch_timeout_s": 0.5}),
]  # fmt: skip
_CERTIFICATES = [
    Case(
        "a certificate of its own making",
        "https://selfsigned.example/",
        "not to be trusted",
        plain="unverified",
    ),
    Case(
        "a certificate of another name", "https://othername.example/", "not to be trusted", plain="unverified"
    ),
    Case("a certificate of the past", "https://expired.example/", "not to be trusted", plain="unverified"),
]
CASES = [*_ADDRESSES, *_SPELLINGS, *_POLICY, *_REDIRECTS, *_BODIES, *_CERTIFICATES]
