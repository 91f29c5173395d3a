"""What `foldlog.connect` refuses before it looks for a server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import foldlog


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"path": 5}, "a path names a directory; 5 does not"),
        ({"path": b"data"}, "a path names a directory"),
        ({"path": ""}, "a path names a directory"),
        ({"path": "a\0b"}, "a path names a directory"),
        ({"url": 5}, "a url is a string"),
        ({"url": ""}, "a url is a string that is not empty"),
        ({"url": "nats://localhost", "path": "data"}, "belongs to the embedded server"),
        ({"timeout": 0}, "a positive number"),
        ({"shards": 0}, "from 1 to 1024"),
        ({"durability": "eventual"}, "not 'eventual'"),
    ],
    ids=repr,
)
async def test_options_that_make_no_sense(
    options: dict[str, Any], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FOLDLOG_URL", raising=False)
    monkeypatch.delenv("FOLDLOG_PATH", raising=False)
    with pytest.raises(foldlog.ConfigurationError, match=reason):
        await foldlog.connect(**options)
    assert os.listdir(tmp_path) == []
