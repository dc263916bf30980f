"""Who is at a session, decided without a browser or an engine."""

from __future__ import annotations

from cellwright.presence import Presence, Visitor, name_of


def test_a_client_without_a_connection_stays_for_a_while_and_one_with_it_until_it_leaves() -> None:
    now = 0.0
    presence = Presence(lambda: now)
    connected, stateless = Visitor(), Visitor(stays=False)
    presence.calls(connected, "s", "mcp:one", changes=True)()
    ended = presence.calls(stateless, "s", "mcp:two", changes=False)
    now = 10_000.0
    assert [one.name for one in presence.at("s")] == ["one", "two"], "a call goes on"
    ended()
    assert [one.calling for one in presence.at("s")] == [False, False]
    now = 20_000.0
    assert [one.name for one in presence.at("s")] == ["one"]
    presence.left(connected)
    assert presence.at("s") == []


def test_a_person_with_two_windows_is_here_once_until_both_are_closed() -> None:
    presence = Presence()
    with presence.staying("s", "page:ada"):
        with presence.staying("s", "page:ada"):
            presence.writes("s", "page:ada", "c1")
            (ada,) = presence.at("s")
            assert (ada.name, ada.cell_id, ada.is_person) == ("ada", "c1", True)
        assert len(presence.at("s")) == 1
    assert presence.at("s") == []


def test_programs_are_called_what_people_call_them_and_others_what_they_call_themselves() -> None:
    known = ["mcp:claude-code", "mcp:codex-mcp-client", "mcp:somebodys-own", "page:ada", "lab"]
    assert [name_of(one) for one in known] == ["Claude Code", "Codex", "somebodys-own", "ada", "JupyterLab"]
