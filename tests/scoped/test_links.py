"""Links: events of their own, walked breadth first, gone with their keys."""

from __future__ import annotations

import foldlog
from foldlog.scoped import MemoryLink, Scope, graph
from foldlog.scoped.index import Edge
from tests.conftest import OpenStore

ONE = Scope.workflow("w")


async def test_a_walk_goes_breadth_first_by_relation_and_depth(store: foldlog.Store) -> None:
    scoped = store.scoped
    for from_key, to_key, relation in [
        ("a", "b", "x"),
        ("a", "c", "y"),
        ("b", "d", "x"),
        ("c", "e", "x"),
        ("d", "a", "x"),  # back to where it began
        ("e", "b", "y"),
        ("b", "b", "x"),
    ]:
        await scoped.link(ONE, MemoryLink(from_key, to_key, relation))
    for each in (scoped, scoped.reader):
        assert await each.traverse(ONE, "a", None, 0) == []
        assert await each.traverse(ONE, "a", None, 1) == ["b", "c"]
        assert await each.traverse(ONE, "a", None, 2) == ["b", "c", "d", "e"]
        assert await each.traverse(ONE, "a", None, 99) == ["b", "c", "d", "e"]
        assert await each.traverse(ONE, "a", "x", 9) == ["b", "d"]
        assert await each.traverse(ONE, "a", "y", 9) == ["c"]
        assert await each.traverse(ONE, "a", "z", 9) == []
        assert await each.traverse(ONE, "d", "x", 2) == ["a", "b"]


async def test_links_are_seen_elsewhere_and_can_be_removed(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    scoped, other = store.scoped, (await reopen()).scoped
    await scoped.link(ONE, MemoryLink("a", "b", "r", {"why": [1, "two"]}))
    await scoped.link(ONE, MemoryLink("a", "b", "other"))
    await scoped.link(ONE, MemoryLink("a", "b", "r", {"why": 2}))  # again: with other metadata
    assert await other.links(ONE, "a") == [
        MemoryLink("a", "b", "r", {"why": 2}),
        MemoryLink("a", "b", "other"),
    ]
    await scoped.unlink(ONE, "a", "b", "r")
    await scoped.unlink(ONE, "a", "b", "r")
    await scoped.unlink(ONE, "x", "y", "r")
    assert await other.traverse(ONE, "a", None, 1, consistency="strong") == ["b"]
    assert await other.traverse(ONE, "a", "r", 1) == []


async def test_deleting_a_key_removes_its_links_both_ways(store: foldlog.Store) -> None:
    scoped = store.scoped
    await scoped.write_many(ONE, dict.fromkeys("abc", 1))
    for from_key, to_key in ("ab", "bc", "bb", "ca"):
        await scoped.link(ONE, MemoryLink(from_key, to_key, "r"))
    await scoped.delete(ONE, "b")
    assert await scoped.traverse(ONE, "a", None, 9) == []
    assert await scoped.traverse(ONE, "c", None, 9) == ["a"]
    await scoped.write(ONE, "b", 2)
    assert await scoped.traverse(ONE, "a", None, 9) == []
    assert await scoped.links(ONE, "b") == []


def test_results_that_lead_to_one_hub_walk_through_it_once() -> None:
    """Each with the best score that any of them gives it, at every depth."""
    results, leaves = [f"r{n}" for n in range(50)], [f"leaf{n}" for n in range(50)]
    links = {result: [Edge("hub", "r", b"")] for result in results}
    links["hub"] = [Edge(leaf, "r", b"") for leaf in leaves]
    walked: list[str] = []

    def edges(key: str) -> list[Edge]:
        walked.append(key)
        return links.get(key, [])

    scores = {result: (number + 1) / 50 for number, result in enumerate(results)}
    assert graph.widened(edges, scores, 1) == {"hub": 0.5}
    walked.clear()
    assert graph.widened(edges, scores, 9) == {"hub": 0.5} | dict.fromkeys(leaves, 0.25)
    assert walked.count("hub") == 1
