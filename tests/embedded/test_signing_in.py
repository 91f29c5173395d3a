"""Credentials that the server refuses are an error at once, which names them and no secret."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import foldlog
from foldlog.log.embedded import EmbeddedServer

HOURS = 10_000.0  # seconds: whoever waits out a timeout hangs
PATIENCE = 60


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "a client that does not sign in"),
        ({"user": "somebody", "password": "s3cret"}, "user 'somebody' with the password given"),
        ({"token": "s3cret"}, "the token given"),
    ],
    ids=repr,
)
async def test_refused_credentials_are_named(
    server: EmbeddedServer, options: dict[str, Any], named: str
) -> None:
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(foldlog.ConfigurationError) as refused:
            await foldlog.connect(server.url, timeout=HOURS, **options)
    assert str(refused.value) == (
        f"no connection to {server.url}: it refuses {named}: Authorization Violation"
    )


async def test_the_password_of_a_url_is_not_shown(server: EmbeddedServer) -> None:
    url = f"nats://{server.user}:s3cret@127.0.0.1:{server.port}"
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(foldlog.ConfigurationError, match=f"user '{server.user}'") as refused:
            await foldlog.connect(url, timeout=HOURS)
    assert "s3cret" not in str(refused.value)


async def test_the_right_credentials_are_taken(server: EmbeddedServer) -> None:
    url = f"nats://{server.user}:{server.password}@127.0.0.1:{server.port}"
    async with foldlog.connect(url) as store:
        assert (await store.health()).url == server.url
