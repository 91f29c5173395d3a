"""Which namespaces a LangGraph store has ever had items in: a tree of their labels.

A namespace stays when its last item goes; a listing looks whether there are items.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind, content_digest
from foldlog.words import Line, Shown

ADDED: Final = "langgraph.namespace"

Tree = dict[str, Any]
"""Subtrees by label. Under the label "", which no namespace has, stands whether items of the
namespace that ends here can expire.
"""


class Added(msgspec.Struct, frozen=True, omit_defaults=True):
    """`langgraph.namespace`: there are items in it, or will be. `expires`: some with a time."""

    labels: tuple[str, ...]
    expires: bool = False


def _add(tree: Tree, added: Added, _: Recorded) -> Tree:
    node = tree
    for label in added.labels:
        node = node.setdefault(label, {})
    node[""] = node.get("", False) or added.expires
    return tree


kind: Final = Kind(
    "langgraphnamespaces",
    keys=("store",),
    records={ADDED: Added},
    fold=Fold(dict, _add, state=Tree),
    id=content_digest,
    shown=Shown(
        {ADDED: lambda added: Line(f"namespace {'/'.join(added.labels)} added")}, group="items"
    ),
)
