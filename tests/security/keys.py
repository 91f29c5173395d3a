"""Operator mode without a tool: keys, and the signed JWTs that a server and a client are given."""

from __future__ import annotations

import base64
import json
import secrets
import time
from typing import Any

import nkeys

_LIMITS = "subs data payload imports exports conn leaf mem_storage disk_storage streams consumer"
UNLIMITED = dict.fromkeys(_LIMITS.split(), -1)


class Key:
    """A key pair of NATS: `seed` signs, `public` is its name."""

    def __init__(self, kind: int) -> None:
        self.seed = nkeys.encode_seed(secrets.token_bytes(32), kind)
        pair = nkeys.from_seed(bytearray(self.seed))
        self.public = pair.public_key.decode()

    def signed(self, name: str, subject: Key, claims: dict[str, Any]) -> str:
        """A JWT by which this key vouches for `subject`."""
        body = {
            "jti": secrets.token_hex(16),
            "iat": int(time.time()),
            "iss": self.public,
            "name": name,
            "sub": subject.public,
            "nats": {"version": 2, **claims},
        }
        head = _base64(json.dumps({"typ": "JWT", "alg": "ed25519-nkey"}).encode())
        text = f"{head}.{_base64(json.dumps(body).encode())}"
        signature = nkeys.from_seed(bytearray(self.seed)).sign(text.encode())
        return f"{text}.{_base64(signature)}"


class Chain:
    """An operator, an account with JetStream, and a user of it."""

    def __init__(self) -> None:
        operator, account = Key(nkeys.PREFIX_BYTE_OPERATOR), Key(nkeys.PREFIX_BYTE_ACCOUNT)
        self.user = Key(nkeys.PREFIX_BYTE_USER)
        self.account, self.system = account, Key(nkeys.PREFIX_BYTE_ACCOUNT)
        self.operator_jwt = operator.signed("operator", operator, {"type": "operator"})
        limits = {**UNLIMITED, "wildcards": True}
        self.account_jwt = operator.signed(
            "account", account, {"type": "account", "limits": limits}
        )
        self.system_jwt = operator.signed("system", self.system, {"type": "account"})
        self.user_jwt = account.signed(
            "user", self.user, {"type": "user", "subs": -1, "data": -1, "payload": -1}
        )

    def credentials(self, seed: bytes | None = None) -> str:
        """The content of a creds file; another `seed` than the user's makes it a wrong one."""
        key = (seed or self.user.seed).decode()
        return (
            f"-----BEGIN NATS USER JWT-----\n{self.user_jwt}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{key}\n------END USER NKEY SEED------\n"
        )

    def config(self) -> str:
        """What a server's configuration says of them."""
        return (
            f"operator: {self.operator_jwt}\n"
            f"system_account: {self.system.public}\n"
            "resolver: MEMORY\n"
            f"resolver_preload: {{ {self.account.public}: {self.account_jwt}, "
            f"{self.system.public}: {self.system_jwt} }}\n"
        )


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
