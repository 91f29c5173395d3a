"""What a connection signs in with, as an error may name it: never a secret."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from foldlog.errors import ConfigurationError
from foldlog.log.jetstream.server_details import REFUSED

_SIGN_IN: Final = re.compile(r"(?:(?<=://)|^)(?:(?!://).)*@")
"""Up to the last `@` before the next URL: a password may hold whatever else a URL has."""

_USER: Final = re.compile(r"(?:(?<=://)|^)(?!\w+://)([^/@:,]+):(?:(?!://)[^@])*@")


def without_secrets(url: str) -> str:
    """Return `url`, one or several with commas between, without what stands before an `@`."""
    return _SIGN_IN.sub("", url)


def check_url(url: str) -> None:
    """Raise ConfigurationError where a password makes a URL unreadable, before it is quoted."""
    for part in url.split(","):
        try:
            _ = urlsplit(part.strip()).port
        except ValueError:
            raise ConfigurationError(
                f"{without_secrets(part.strip())} cannot be read as a URL; in a user's name and "
                "password write / ? # @ : and , as %2F %3F %23 %40 %3A and %2C"
            ) from None


def refusal(error: Exception) -> str | None:
    """Return what the server said to the credentials; None where it was not about them."""
    found = REFUSED.search(str(error))
    return found[0] if found else None


def identity(url: str, options: Mapping[str, Any]) -> str:
    """Return as what `url` and the options of nats-py sign in."""
    credentials = options.get("user_credentials")
    if isinstance(credentials, str | os.PathLike):
        return f"the credentials in {os.fspath(credentials)}"
    if credentials is not None:
        return "the credentials given"
    if any(options.get(key) is not None for key in ("nkeys_seed", "nkeys_seed_str")):
        return "the key given"
    user = options.get("user")
    if user is None and (found := _USER.search(url)) is not None:
        user = unquote(found[1])
    if user is not None:
        return f"user {user() if callable(user) else user!r} with the password given"
    # Before an "@" alone, what nats-py takes for a token.
    if options.get("token") is not None or "@" in url:
        return "the token given"
    return "a client that does not sign in"
