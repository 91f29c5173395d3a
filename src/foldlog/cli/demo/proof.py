"""What the demo claims, and how a claim is judged. Pure."""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple, ParamSpec

P = ParamSpec("P")


class Proof(NamedTuple):
    """One claim put to the test.

    `passed` is None for what could not be tried, and `seconds` where nothing took any. `figure` is
    for people, `facts` for programs.
    """

    name: str
    claim: str
    passed: bool | None
    figure: str
    facts: Mapping[str, Any]
    seconds: float | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The proof for `--json`."""
        return {
            "name": self.name,
            "claim": self.claim,
            "passed": self.passed,
            "seconds": self.seconds,
            **self.facts,
        }


def timed(act: Callable[P, Awaitable[Proof]]) -> Callable[P, Awaitable[Proof]]:
    """An act whose proof says how long it took."""

    @functools.wraps(act)
    async def measured(*args: P.args, **kwargs: P.kwargs) -> Proof:
        began = time.perf_counter()
        return (await act(*args, **kwargs))._replace(seconds=time.perf_counter() - began)

    return measured


def fingerprint(messages: Iterable[Mapping[str, Any]]) -> str:
    """SHA-256 over the messages in order, each as canonical JSON (UTF-8, sorted keys, no spaces)
    and a newline: simple enough for anybody to compute it for a file of their own.
    """
    digest = hashlib.sha256()
    for message in messages:
        line = json.dumps(message, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()
