"""LangGraph's own tests of graphs with a checkpointer, and of stores.

Its conformance suite is a distribution of its own, which `test_conformance.py` runs.
"""

from typing import Final

from tests.integrations.upstream import Suite

STORES: Final = ("tests/test_store.py", "tests/test_async_store.py")

SUITES: Final = (
    Suite("langgraph-checkpoint", "libs/checkpoint", ("tests/test_store.py",), "upstream_store"),
    Suite(
        "langgraph-checkpoint-sqlite",
        "libs/checkpoint-sqlite",
        (*STORES, "tests/test_ttl.py"),
        "upstream_store",
    ),
    Suite(
        "langgraph-checkpoint-postgres",
        "libs/checkpoint-postgres",
        STORES,
        "upstream_postgres",
        has_control=False,
    ),
    Suite("langgraph", "libs/langgraph", ("tests",), "upstream_saver"),
)
