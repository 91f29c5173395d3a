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
        ({"data_dir": "data"}, r"foldlog.connect has no option 'data_dir': did you mean path=\?"),
        ({"time_out": 3}, r"no option 'time_out': did you mean timeout=\?"),
        ({"max_hot_byte": 3}, r"did you mean max_hot_bytes=\?"),
        ({"user_credential": "a"}, r"did you mean user_credentials=\?"),
        ({"error_cb": print}, "no option 'error_cb'"),
        ({"xyzzy": 1}, r"no option 'xyzzy': help\(foldlog.connect\) lists them"),
        ({"url": "/some/path"}, r"a directory is given as path=: .*\(path='/some/path'\)"),
        ({"url": "./data"}, "a directory is given as path="),
        ({"url": "some/data"}, "a directory is given as path="),
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


async def test_a_directory_that_is_there_is_no_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkdir("data")
    with pytest.raises(foldlog.ConfigurationError, match="a directory is given as path="):
        await foldlog.connect("data")


IN_ENVIRONMENT = {"FOLDLOG_USER": "ann", "FOLDLOG_PASSWORD": "s3cret"}


@pytest.mark.parametrize(
    ("url", "options", "environment", "signs_in"),
    [
        ("nats://host", {}, {}, {}),
        ("nats://host", {}, IN_ENVIRONMENT, {"user": "ann", "password": "s3cret"}),
        ("nats://host", {"name": "x"}, {"FOLDLOG_USER": "ann"}, {"name": "x", "user": "ann"}),
        ("nats://host", {}, {**IN_ENVIRONMENT, "FOLDLOG_CREDS": "c"}, {"user_credentials": "c"}),
        ("nats://host", {"token": "t"}, IN_ENVIRONMENT, {"token": "t"}),
        ("nats://bob:pw@host", {}, IN_ENVIRONMENT, {}),
        ("nats://host", {}, {"FOLDLOG_USER": "", "FOLDLOG_CREDS": ""}, {}),
    ],
)
def test_the_environment_signs_in_where_nothing_else_does(
    url: str,
    options: dict[str, Any],
    environment: dict[str, str],
    signs_in: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("FOLDLOG_USER", "FOLDLOG_PASSWORD", "FOLDLOG_CREDS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert foldlog.connect(url, **options)._settings.server_options == signs_in


async def test_credentials_files_say_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foldlog.opening.settings.find_spec", lambda name: None)
    with pytest.raises(foldlog.ConfigurationError, match=r"pip install 'foldlog\[nkeys\]'"):
        await foldlog.connect("nats://127.0.0.1:1", user_credentials="me.creds")
