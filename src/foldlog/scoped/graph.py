"""Walks along the links of a scope. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from foldlog_projections.scopes import Edge, State

DECAY: Final = 0.5
"""What is left of a result's score for what it links to, at each step."""


def edges(state: State, from_key: str, now: float) -> list[tuple[Edge, bytes]]:
    """The links from a key, with their metadata; none to or from a key whose time is over."""
    if _is_over(state, from_key, now):
        return []
    links = state.links.get(from_key, {}).items()
    return [(edge, metadata) for edge, metadata in links if not _is_over(state, edge[0], now)]


def reach(
    state: State, from_key: str, relation: str | None, max_depth: int, now: float
) -> dict[str, int]:
    """The keys that links lead to, breadth first, each with the number of steps to it.

    A key whose time is over at `now` has no links. Where a walk leads back, it ends.
    """
    depths = {from_key: 0}
    level = [from_key]
    for depth in range(1, max_depth + 1):
        following: list[str] = []
        for key in level:
            for (to_key, named), _ in edges(state, key, now):
                if to_key not in depths and relation in (None, named):
                    depths[to_key] = depth
                    following.append(to_key)
        level = following
        if not level:
            break
    del depths[from_key]
    return depths


def widened(
    state: State, scores: Mapping[str, float], max_depth: int, now: float
) -> dict[str, float]:
    """Scores of what the results link to, directly or not, as far as they have none themselves."""
    best, level = dict(scores), dict(scores)
    for _ in range(max_depth):
        # All results walk together, and only on from where one came with more than any before:
        # many that lead to one hub do not each walk through all that the hub links to.
        following: dict[str, float] = {}
        for key, score in level.items():
            for (to_key, _), _ in edges(state, key, now):
                if score * DECAY > best.get(to_key, 0.0):
                    best[to_key] = following[to_key] = score * DECAY
        level = following
        if not level:
            break
    return {key: score for key, score in best.items() if key not in scores and key in state.entries}


def _is_over(state: State, key: str, now: float) -> bool:
    entry = state.entries.get(key)
    return entry is not None and entry.is_over(now)
