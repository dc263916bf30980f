"""Graphs as nodes and links: networkx's, and plain data that is written as one.

Bounded, and made of plain values, as tables are. Draws nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, TypeAlias

from cellwright_kernel.genuine import is_of
from cellwright_kernel.scalars import label, plain

__all__ = ["Graph", "graph_of"]

Graph: TypeAlias = dict[str, Any]
MAX_NODES = 5_000
MAX_LINKS = 20_000
MAX_ATTRIBUTES = 10
_NETWORKS = ("Graph", "DiGraph", "MultiGraph", "MultiDiGraph")
_ENDS = (("source", "target"), ("from", "to"))
_IDENTITIES = ("id", "name", "label", "key")
_PAIR = 2


def graph_of(value: Any, *, also_records: bool = False) -> Graph | None:
    """A value as ``nodes`` and ``links``; ``None`` if it is no graph. A list of links counts where it is asked to."""
    kind = type(value)
    if is_of(kind, "networkx", *_NETWORKS):
        return _network(value)
    if kind is dict:
        links = value.get("links", value.get("edges"))
        if type(links) in (list, tuple):
            return _plain(value.get("nodes", ()), links)
    if (
        also_records
        and kind in (list, tuple)
        and value
        and all(_ends(link) for link in islice(value, MAX_LINKS))
    ):
        return _plain((), value)
    return None


def _network(graph: Any) -> Graph:
    # By place, not by name: a node may be anything that can be hashed, and hashing would ask it.
    adjacency = [(node, list(neighbours)) for node, neighbours in graph.adjacency()]
    places = {id(node): number for number, (node, _) in enumerate(adjacency)}
    names = _names([label(node) for node, _ in adjacency])
    directed = bool(graph.is_directed())
    links = [
        {"source": names[number], "target": names[places[id(other)]]}
        for number, (_, neighbours) in enumerate(adjacency)
        for other in neighbours
        if id(other) in places and (directed or places[id(other)] >= number)
    ]
    return _bounded([{"id": name} for name in names], links)


def _names(labels: list[str]) -> list[str]:
    """Names that differ, also of nodes that are told alike."""
    seen: dict[str, int] = {}
    names = []
    for name in labels:
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return names


def _plain(nodes: Any, links: Sequence[Any]) -> Graph | None:
    found: dict[str, dict[str, Any]] = {}
    for number, node in enumerate(nodes if type(nodes) in (list, tuple) else ()):
        made = _node(node, number)
        found.setdefault(made["id"], made)
    made_links = []
    for link in links:
        ends = _ends(link)
        if ends is None:
            return None
        source, target = ends
        attributes = (
            _attributes(link, skip=frozenset({"source", "target", "from", "to"}))
            if type(link) is dict
            else {}
        )
        made_links.append({"source": source, "target": target, **attributes})
        for end in ends:
            found.setdefault(end, {"id": end})
    return _bounded(list(found.values()), made_links)


def _node(node: Any, number: int) -> dict[str, Any]:
    if type(node) is not dict:
        return {"id": label(node)}
    name = next((label(node[key]) for key in _IDENTITIES if key in node), str(number))
    return {"id": name, **_attributes(node, skip=frozenset({"id"}))}


def _ends(link: Any) -> tuple[str, str] | None:
    if type(link) in (list, tuple) and len(link) >= _PAIR:
        return label(link[0]), label(link[1])
    if type(link) is dict:
        for source, target in _ENDS:
            if source in link and target in link:
                return label(link[source]), label(link[target])
    return None


def _attributes(held: dict[Any, Any], *, skip: frozenset[str]) -> dict[str, Any]:
    some: Iterable[tuple[Any, Any]] = (
        (key, value) for key, value in held.items() if type(key) is str and key not in skip
    )
    return {key: plain(value) for key, value in islice(some, MAX_ATTRIBUTES)}


def _bounded(nodes: list[dict[str, Any]], links: list[dict[str, Any]]) -> Graph:
    notices = []
    if len(nodes) > MAX_NODES:
        notices.append(f"the first {MAX_NODES:,} of {len(nodes):,} nodes")
        kept = {node["id"] for node in nodes[:MAX_NODES]}
        links = [link for link in links if link["source"] in kept and link["target"] in kept]
    if len(links) > MAX_LINKS:
        notices.append(f"the first {MAX_LINKS:,} of {len(links):,} links")
    return {"nodes": nodes[:MAX_NODES], "links": links[:MAX_LINKS], "notices": notices}
