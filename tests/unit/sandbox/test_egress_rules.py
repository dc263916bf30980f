"""Which destinations and messages the proxy takes, decided without a network."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.errors import NetworkRuleInvalid
from cellwright.sandbox.http_heads import BadHead, parse_request, parse_response, read_chunk_size
from cellwright.sandbox.network_log import NetworkEntry, NetworkLog
from cellwright.sandbox.network_rules import Destination, NetworkRules, parse_address, why_not_public

INSIDE = [
    "127.0.0.1",
    "127.1.2.3",
    "0.0.0.0",  # noqa: S104
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "169.254.1.1",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "198.18.0.1",
    "224.0.0.1",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "192.0.2.1",
    "203.0.113.9",
    "::1",
    "::",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::7f00:1",
    "2002:7f00:1::",
    "2001:0:7f00:1::",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd00:ec2::254",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
    "::ffff:0:127.0.0.1",
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:8.8.8.8"]


def at(text: str) -> Destination:
    return Destination.parse(text)


def refusal(rules: NetworkRules, text: str, address: str = "8.8.8.8") -> str | None:
    """The setting that refuses, over the name and then over the address that it leads to."""
    destination = at(text)
    found = rules.refuse_name(destination)
    if found is None:
        literal = destination.address or parse_address(address)
        assert literal is not None
        found = rules.refuse_address(destination, literal)
    return found.setting if found else None


@pytest.mark.parametrize("address", INSIDE)
def test_address_that_leads_inside_is_not_public(address: str) -> None:
    found = parse_address(address)
    assert found is not None
    assert why_not_public(found) is not None
    assert refusal(NetworkRules.parse("open"), "innocent.example:80", address) == "network_allow"


@pytest.mark.parametrize("address", PUBLIC)
def test_public_address_is_public(address: str) -> None:
    found = parse_address(address)
    assert found is not None
    assert why_not_public(found) is None


@pytest.mark.parametrize(
    "text",
    [
        "2130706433:80",
        "0x7f000001:80",
        "127.1:80",
        "0177.0.0.1:80",
        "127.0.0.0x1:80",
        "1.2.3.4.5:80",
        "[::1%25lo]:80",
        "fe80::1%lo",
        "[127.0.0.1]:80",
        "host",
        ":80",
        "host:",
        "host:0",
        "host:65536",
        "host:+80",
        "host:8_0",
        "a..b:80",
        "-a.b:80",
        "a_b-:80",
        "ho%73t:80",
        "ho\u017ft:80",
        "\u212a.example:80",
        "a/b:80",
        "a@b:80",
        "[::1:80",
        "[::1]80",
        "host:80:80",
    ],
)
def test_unusual_spelling_of_a_destination_is_no_destination(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        at(text)


def test_destination_has_one_spelling() -> None:
    assert str(at("EXAMPLE.org.:443")) == "example.org:443"
    assert str(at("[0:0::1]:80")) == "[::1]:80"
    assert str(at("[::ffff:10.0.0.1]:80")) == "10.0.0.1:80"


def test_closed_network_refuses_everything_and_names_its_setting() -> None:
    assert refusal(NetworkRules(), "example.org:443") == "network"


@pytest.mark.parametrize(
    ("entry", "destination", "is_allowed"),
    [
        ("example.org", "example.org:443", True),
        ("example.org", "EXAMPLE.org.:80", True),
        ("example.org", "example.org:8080", False),
        ("example.org", "www.example.org:443", False),
        ("example.org", "example.org.evil.net:443", False),
        ("example.org", "notexample.org:443", False),
        ("*.example.org", "a.b.example.org:443", True),
        ("*.example.org", "example.org:443", False),
        ("*.example.org", "evilexample.org:443", False),
        ("example.org:8080", "example.org:8080", True),
        ("example.org:8080", "example.org:443", False),
        ("example.org:*", "example.org:5432", True),
        ("*", "anything.example:443", True),
        ("*:*", "anything.example:22", True),
        ("*", "10.0.0.1:80", False),
        ("8.8.8.0/24", "8.8.8.8:443", True),
        ("8.8.8.0/24", "9.9.9.9:443", False),
        ("[2606:4700::/32]:443", "[2606:4700::1]:443", True),
        ("10.0.0.0/8:5432", "10.1.2.3:5432", True),
        ("10.0.0.0/8:5432", "10.1.2.3:80", False),
        ("169.254.0.0/16", "169.254.169.254:80", False),
        ("169.254.169.254", "169.254.169.254:80", True),
    ],
)
def test_allow_list_names_hosts_networks_and_ports(entry: str, destination: str, is_allowed: bool) -> None:
    rules = NetworkRules.parse("allow", allow=[entry])
    assert (refusal(rules, destination) is None) == is_allowed


def test_listed_name_that_leads_inside_needs_its_address_listed_too() -> None:
    name_only = NetworkRules.parse("allow", allow=["intranet.example"])
    both = NetworkRules.parse("allow", allow=["intranet.example", "10.0.0.0/8"])
    assert refusal(name_only, "intranet.example:443", "10.0.0.7") == "network_allow"
    assert refusal(both, "intranet.example:443", "10.0.0.7") is None
    assert refusal(both, "intranet.example:443", "192.168.0.7") == "network_allow"


def test_unlisted_name_is_refused_before_it_is_looked_up_wherever_it_leads() -> None:
    rules = NetworkRules.parse("allow", allow=["8.8.8.8"])
    assert rules.refuse_name(at("secret-data.evil.example:443")) is not None


def test_denied_wins_over_allowed_by_name_and_by_address() -> None:
    rules = NetworkRules.parse("allow", allow=["*.example.org"], deny=["bad.example.org", "9.9.9.9"])
    assert refusal(rules, "good.example.org:443") is None
    assert refusal(rules, "bad.example.org:443") == "network_deny"
    assert refusal(rules, "good.example.org:443", "9.9.9.9") == "network_deny"
    denying = NetworkRules.parse("deny", deny=["*.tracker.example"])
    assert refusal(denying, "a.tracker.example:9999") == "network_deny"
    assert refusal(denying, "example.org:9999") is None


@pytest.mark.parametrize(
    "entry", ["", "http://example.org", "exa mple.org", "*example.org", "a.*.b", "10.0.0.1/8", "a:b", "a:0"]
)
def test_entry_that_cannot_be_understood_is_refused_with_the_grammar(entry: str) -> None:
    with pytest.raises(NetworkRuleInvalid) as refused:
        NetworkRules.parse("allow", allow=[entry])
    assert "example.org" in str(refused.value.hint)


@given(st.text(max_size=30))
def test_whatever_is_parsed_as_a_destination_is_spelled_the_same_again(text: str) -> None:
    try:
        found = Destination.parse(text, default_port=80)
    except ValueError:
        return
    assert Destination.parse(str(found)) == found


def head(*lines: str) -> bytes:
    return "\r\n".join(lines).encode("latin-1")


SMUGGLING = {
    "both lengths": head("POST http://h/ HTTP/1.1", "Content-Length: 3", "Transfer-Encoding: chunked"),
    "two lengths": head("POST http://h/ HTTP/1.1", "Content-Length: 3", "Content-Length: 3"),
    "a list of lengths": head("POST http://h/ HTTP/1.1", "Content-Length: 3, 3"),
    "a signed length": head("POST http://h/ HTTP/1.1", "Content-Length: +3"),
    "a hexadecimal length": head("POST http://h/ HTTP/1.1", "Content-Length: 0x3"),
    "an obscured coding": head("POST http://h/ HTTP/1.1", "Transfer-Encoding: xchunked"),
    "two codings": head("POST http://h/ HTTP/1.1", "Transfer-Encoding: gzip, chunked"),
    "a coding in two headers": head(
        "POST http://h/ HTTP/1.1", "Transfer-Encoding: chunked", "Transfer-Encoding: identity"
    ),
    "a space before the colon": head("POST http://h/ HTTP/1.1", "Content-Length : 3"),
    "a folded line": head("GET http://h/ HTTP/1.1", "A: b", " Content-Length: 3"),
    "a bare line feed": b"GET http://h/ HTTP/1.1\nHost: evil\r\nA: b",
    "a bare carriage return": b"GET http://h/ HTTP/1.1\r\nA: b\rContent-Length: 3",
    "a NUL": head("GET http://h/ HTTP/1.1", "A: b\0c"),
    "two hosts": head("GET http://h/ HTTP/1.1", "Host: h", "Host: evil"),
    "a user name": head("GET http://allowed@evil/ HTTP/1.1"),
    "a backslash": head("GET http://allowed\\@evil/ HTTP/1.1"),
    "a fragment": head("GET http://evil#allowed/ HTTP/1.1"),
    "a path alone": head("GET / HTTP/1.1", "Host: h"),
    "another scheme": head("GET ftp://h/ HTTP/1.1"),
    "a TLS scheme": head("GET https://h/ HTTP/1.1"),
    "a second target": head("GET http://h/ http://evil/ HTTP/1.1"),
    "a tab for a space": head("GET\thttp://h/ HTTP/1.1"),
    "another version": head("GET http://h/ HTTP/2.0"),
    "no version": head("GET http://h/"),
    "a body on a tunnel": head("CONNECT h:443 HTTP/1.1", "Content-Length: 3"),
    "a tunnel to a path": head("CONNECT h:443/x HTTP/1.1"),
    "a tunnel to a URL": head("CONNECT http://h:443 HTTP/1.1"),
    "a tunnel without a port": head("CONNECT h HTTP/1.1"),
    "too many headers": head("GET http://h/ HTTP/1.1", *["A: b"] * 300),
}


@pytest.mark.parametrize("trick", SMUGGLING)
def test_message_that_two_readers_could_read_differently_is_refused(trick: str) -> None:
    with pytest.raises(BadHead):
        parse_request(SMUGGLING[trick])


def test_request_goes_on_written_anew() -> None:
    request = parse_request(
        head(
            "POST http://Example.org?q=1 HTTP/1.1",
            "Host: evil.example",
            "Proxy-Authorization: Basic c2VjcmV0",
            "Connection: X-Once, Content-Length, Host",
            "X-Once: 1",
            "X-Kept:   two ",
            "Upgrade: websocket",
            "Content-Length: 3",
        )
    )
    assert request.destination == Destination("example.org", 80)
    assert request.forwarded().split(b"\r\n") == [
        b"POST /?q=1 HTTP/1.1",
        b"Host: Example.org",
        b"X-Kept: two",
        b"Content-Length: 3",
        b"Connection: close",
        b"",
        b"",
    ]


def test_answer_keeps_its_framing_and_loses_what_concerned_the_connection() -> None:
    answer = parse_response(
        head(
            "HTTP/1.1 200 OK",
            "Transfer-Encoding: chunked",
            "Connection: keep-alive",
            "Keep-Alive: timeout=5",
            "A: b",
        )
    )
    assert answer.forwarded() == (
        b"HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )


@pytest.mark.parametrize("line", [b"", b"0x3", b"-1", b" 3", b"3 4", b"fffffffff", b"3\n"])
def test_chunk_without_a_plain_size_is_refused(line: bytes) -> None:
    with pytest.raises(BadHead):
        read_chunk_size(line)


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader_of_heads(data: bytes) -> None:
    for parse in (parse_request, parse_response):
        try:
            parse(data)
        except BadHead:
            continue


def entry(log: NetworkLog, execution: str | None = None) -> NetworkEntry:
    return NetworkEntry(log.next_number(), 0, 0, "GET", "h", 80, None, 0, 0, "allowed", "", None, execution)


def test_log_keeps_the_newest_and_counts_the_rest() -> None:
    log = NetworkLog(max_entries=3)
    for number in range(5):
        log.add(entry(log, "even" if number % 2 == 0 else "odd"))
    assert [kept.number for kept in log.since()] == [3, 4, 5]
    assert [kept.number for kept in log.since(4)] == [5]
    assert [kept.number for kept in log.since(execution="odd")] == [4]
    assert log.dropped == 2
