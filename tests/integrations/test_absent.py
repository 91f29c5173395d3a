"""Without PenguiFlow, or with one that is too old, the adapter says what to do."""

from __future__ import annotations

import sys

import pytest

from foldlog.errors import ConfigurationError
from foldlog.integrations.penguiflow.classes import installed


def test_without_penguiflow_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "penguiflow.state", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'foldlog\[penguiflow\]'"):
        installed.__wrapped__()
