"""Every option of `connect` stands in the reference."""

from __future__ import annotations

import inspect
import re

import pytest

import foldlog
from tests.docs.markdown import ROOT

PAGE = (ROOT / "docs/reference/configuration.md").read_text("utf-8")
OPTIONS = [name for name in inspect.signature(foldlog.connect).parameters if name != "nats_options"]


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_is_in_the_configuration(option: str) -> None:
    assert re.search(rf"^\| [^|]*`{option}`[^|]* \|", PAGE, re.MULTILINE)
