"""How much of what answers a question is among the first results: recall at five."""

from __future__ import annotations

from foldlog.scoped import Scope, ScopedStore, SearchOptions
from foldlog.scoped.search import Mode
from tests.scoped.labelled import MEMORIES, RELEVANT

SCOPE = Scope.custom("labelled")


async def fill(scoped: ScopedStore) -> None:
    """Write the labelled memories."""
    await scoped.write_many(SCOPE, dict(MEMORIES))


async def recall(scoped: ScopedStore, mode: Mode, at: int = 5) -> float:
    """The share of relevant keys among the first `at` results, as a mean over the questions."""
    shares = []
    for query, relevant in RELEVANT.items():
        options = SearchOptions()
        found = await scoped.search(SCOPE, query, at, options, mode=mode)
        shares.append(len(relevant & {each.key for each in found}) / len(relevant))
    return sum(shares) / len(shares)
