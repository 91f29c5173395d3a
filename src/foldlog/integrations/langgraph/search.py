"""Which namespaces and items a search looks at."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from foldlog_projections.langgraph.langgraphnamespaces import Added, Tree

Labels = tuple[str, ...]
"""A namespace."""

Meets = Callable[[Any], bool]

_MISSING: Final = object()

_OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}

# --- namespaces -----------------------------------------------------------------------------------


def is_listed(tree: Tree, added: Added) -> bool:
    """Whether a tree holds a namespace already, and whether its items can expire."""
    node: Any = tree
    for label in added.labels:
        if (node := node.get(label)) is None:
            return False
    return bool(node.get("", False)) or ("" in node and not added.expires)


def namespaces(tree: Tree, prefix: Sequence[str] = ()) -> Iterator[Labels]:
    """Yield the namespaces that begin with labels, in order."""
    node: Any = tree
    for label in prefix:
        node = node.get(label) if label else None
        if node is None:
            return
    yield from _below(node, tuple(prefix))


def _below(node: Tree, labels: Labels) -> Iterator[Labels]:
    if "" in node:
        yield labels
    for label in sorted(node):
        if label:
            yield from _below(node[label], (*labels, label))


def expiring(tree: Tree) -> list[Labels]:
    """The namespaces that have had items with a time, in order."""

    def expires(labels: Labels) -> bool:
        node: Any = tree
        for label in labels:
            node = node[label]
        return bool(node[""])

    return list(filter(expires, namespaces(tree)))


def is_matched(labels: Labels, match_type: str, path: Sequence[str]) -> bool:
    """Whether a namespace begins, or ends, with a path in which "*" stands for any one label.

    Raises:
        ValueError: the match type is neither "prefix" nor "suffix".
    """
    if match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {match_type}")
    if len(path) > len(labels):
        return False
    part = labels[: len(path)] if match_type == "prefix" else labels[len(labels) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


# --- filters --------------------------------------------------------------------------------------


def matcher(filter: Mapping[str, Any] | None) -> Meets:
    """Return what tells whether a value has what a filter asks for.

    A field with dots in its name is looked for as it is, and then as a path. A condition is a value
    to equal, a mapping of operators, or a mapping whose fields are conditions.

    Raises:
        ValueError: an operator is unknown.
    """
    return _every([_of_field(name, _condition(each)) for name, each in (filter or {}).items()])


def _every(tests: Sequence[Meets]) -> Meets:
    return tests[0] if len(tests) == 1 else lambda found: all(meets(found) for meets in tests)


def _of_field(name: str, meets: Meets) -> Meets:
    return lambda value: meets(_field(value, name))


def _field(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        return None
    found = value.get(name, _MISSING)
    if found is _MISSING and "." in name:
        head, rest = name.split(".", 1)
        return _field(value.get(head), rest)
    return None if found is _MISSING else found


def _condition(condition: Any) -> Meets:
    """What tells whether a field meets a condition."""
    if isinstance(condition, dict):
        if any(str(name).startswith("$") for name in condition):
            return _every([_comparison(name, wanted) for name, wanted in condition.items()])
        fields = [(name, _condition(each)) for name, each in condition.items()]
        return lambda found: (
            isinstance(found, dict) and all(meets(found.get(name)) for name, meets in fields)
        )
    if isinstance(condition, list | tuple):
        parts = list(map(_condition, condition))
        return lambda found: (
            isinstance(found, list | tuple)
            and len(found) == len(parts)
            and all(meets(each) for meets, each in zip(parts, found, strict=True))
        )
    return lambda found: bool(found == condition)


def _comparison(name: str, wanted: Any) -> Meets:
    compare = _OPERATORS.get(name)
    if compare is None:
        raise ValueError(f"Unsupported operator: {name}")
    if name in ("$eq", "$ne"):
        return lambda found: bool(compare(found, wanted))
    number = _number(wanted)

    def compares(found: Any) -> bool:
        if isinstance(found, str) and isinstance(wanted, str):
            return bool(compare(found, wanted))
        other = _number(found)  # what cannot be compared is neither more nor less
        return other is not None and number is not None and bool(compare(other, number))

    return compares


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
