"""Each public class has a name of its own: what a user imports is what they meant."""

from __future__ import annotations

import importlib
import inspect
from collections import defaultdict

from tests.docs.surface import MODULES


def test_no_two_public_classes_have_one_name() -> None:
    found: dict[str, set[type]] = defaultdict(set)
    for module in map(importlib.import_module, MODULES):
        for name in getattr(module, "__all__", dir(module)):
            value = getattr(module, name)
            if inspect.isclass(value) and value.__module__.startswith("foldlog"):
                found[name].add(value)
    assert {name: kinds for name, kinds in found.items() if len(kinds) > 1} == {}
