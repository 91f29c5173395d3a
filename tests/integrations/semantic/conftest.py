"""Semantic search with the real embedder. Without it every module here is skipped, before it is
imported; where PenguiFlow is installed, in the environment of these tests, that is an error.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.integrations.missing import make_has_it, only_with

skip = make_has_it("wordllama")


def skip_or_fail() -> None:
    if find_spec("penguiflow") is not None:
        pytest.fail("wordllama is missing here: constraints-integrations.txt must name it")
    skip()


pytest_pycollect_makemodule = only_with("wordllama", skip_or_fail)
