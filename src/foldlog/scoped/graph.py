"""Walks along the links of a scope. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from foldlog.scoped.index import Edge

Edges = Callable[[str], Sequence[Edge]]
"""The links from a key, in the order in which they were made."""

DECAY: Final = 0.5
"""What is left of a result's score for what it links to, at each step."""


def reach(edges: Edges, from_key: str, relation: str | None, max_depth: int) -> dict[str, int]:
    """The keys that links lead to, breadth first, each with the number of steps to it."""
    depths = {from_key: 0}
    level = [from_key]
    for depth in range(1, max_depth + 1):
        following: list[str] = []
        for key in level:
            for edge in edges(key):
                if edge.to_key not in depths and relation in (None, edge.relation):
                    depths[edge.to_key] = depth
                    following.append(edge.to_key)
        level = following
        if not level:
            break
    del depths[from_key]
    return depths


def widened(edges: Edges, scores: Mapping[str, float], max_depth: int) -> dict[str, float]:
    """Scores of what the results link to, directly or not, as far as they have none themselves."""
    best, level = dict(scores), dict(scores)
    for _ in range(max_depth):
        # All results walk at once, and only on from where one came with more than any before:
        # many that lead to one hub do not each walk through all that the hub links to.
        following: dict[str, float] = {}
        for key, score in level.items():
            for edge in edges(key):
                if score * DECAY > best.get(edge.to_key, 0.0):
                    best[edge.to_key] = following[edge.to_key] = score * DECAY
        level = following
        if not level:
            break
    return {key: score for key, score in best.items() if key not in scores}
