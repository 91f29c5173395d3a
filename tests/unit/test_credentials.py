"""What an error may say of credentials: whose they are, and nothing that signs in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nats.errors
import pytest
from nats.aio.client import RawCredentials

import foldlog
from foldlog.errors import ConfigurationError
from foldlog.log.jetstream.credentials import identity, refusal, without_secrets


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nats://host:4222", "nats://host:4222"),
        ("nats://me:secret@host:4222", "nats://host:4222"),
        ("nats://secret@host", "nats://host"),
        ("me:secret@host:4222", "host:4222"),
        ("nats://me:sec/ret@host", "nats://host"),
        ("nats://me:sec,ret@host", "nats://host"),
        ("nats://me:sec@ret@host", "nats://host"),
        ("nats://a:4222,nats://me:secret@b:4222", "nats://a:4222,nats://b:4222"),
        ("nats://me:secret@a,nats://me:secret@b", "nats://a,nats://b"),
    ],
)
def test_a_url_is_shown_without_what_signs_in(url: str, shown: str) -> None:
    assert without_secrets(url) == shown


@pytest.mark.parametrize(
    ("url", "options", "named"),
    [
        ("nats://host", {}, "a client that does not sign in"),
        ("nats://host", {"user": "me", "password": "secret"}, "user 'me' with the password given"),
        ("nats://host", {"user": lambda: "me", "password": "secret"}, "user 'me'"),
        ("nats://m%40e:secret@host", {}, "user 'm@e'"),
        ("me:secret@host:4222", {}, "user 'me'"),
        ("nats://a:4222,nats://me:secret@b", {}, "user 'me'"),
        ("nats://secret@host", {}, "the token given"),
        ("nats://host", {"token": "secret"}, "the token given"),
        ("nats://host", {"user_credentials": "/keys/me.creds"}, "the credentials in /keys/me"),
        ("nats://host", {"user_credentials": Path("me.creds")}, "the credentials in me.creds"),
        ("nats://host", {"user_credentials": RawCredentials("secret")}, "the credentials given"),
        ("nats://host", {"user_credentials": ("jwt", "seed")}, "the credentials given"),
        ("nats://host", {"nkeys_seed_str": "secret"}, "the key given"),
    ],
)
def test_credentials_are_named_without_a_secret(
    url: str, options: dict[str, Any], named: str
) -> None:
    assert identity(url, options).startswith(named)
    assert "secret" not in identity(url, options)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (nats.errors.Error("nats: 'Authorization Violation'"), "Authorization Violation"),
        (nats.errors.Error("nats: 'User Authentication Expired'"), "User Authentication Expired"),
        (nats.errors.Error("nats: 'Authentication Timeout'"), None),
        (ConnectionRefusedError(111, "Connection refused"), None),
    ],
    ids=repr,
)
def test_only_what_will_not_change_is_a_refusal(error: Exception, said: str | None) -> None:
    assert refusal(error) == said


@pytest.mark.parametrize("password", ["s3cret#x", "s3cret/x", "s3cret?x"])
async def test_a_url_that_a_password_breaks_is_refused_without_it(password: str) -> None:
    with pytest.raises(ConfigurationError, match="%23") as told:
        await foldlog.connect(f"nats://me:{password}@localhost:4222")
    assert "s3cret" not in str(told.value)
    assert told.value.__cause__ is None
    assert told.value.__suppress_context__
