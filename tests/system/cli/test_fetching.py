"""`cellwright tool fetch`: a real daemon, data on stdout, the rest on stderr."""

from __future__ import annotations

import json

from tests.support.tools.webserver import Reply, serving
from tests.system.daemon.conftest import Place


def test_fetch_prints_the_page_and_log_what_was_asked(place: Place) -> None:
    with serving() as web:
        web.routes["/"] = Reply("<h1>Prices</h1>", headers={"Content-Type": "text/html"})
        web.routes["/may.csv"] = Reply("a,b\n", headers={"Content-Type": "text/csv"})
        place.environment |= {
            "CELLWRIGHT_NETWORK": "allow",
            "CELLWRIGHT_NETWORK_ALLOW": json.dumps([f"127.0.0.1:{web.port}"]),
        }
        page = place.run("fetch", web.url("/"))
        assert page.stdout == "# Prices\n", page.stderr
        saved = place.run("fetch", web.url("/may.csv"), "--type", "file", "--output", "x/may.csv")
        assert saved.stdout == "x/may.csv\n", saved.stderr
        data = json.loads(place.run("fetch", web.url("/"), "--json").stdout)
        assert (data["type"], data["text"]) == ("html", "# Prices")
        refused = place.run("fetch", "http://elsewhere.example/")
        assert refused.returncode == 1
        assert "network_allow" in refused.stderr
        requests = json.loads(place.run("fetch", "--log", "--json").stdout)["requests"]
        assert [one["verdict"] for one in requests] == ["allowed", "allowed", "allowed", "refused"]
        assert "elsewhere.example:80" in place.run("fetch", "--log").stdout.splitlines()[1]
    assert place.run("fetch").returncode == 2
