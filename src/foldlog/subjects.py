"""Where an envelope lives: literal subjects, `<prefix>.<namespace>.<shard>.<family>.<key>[.<key>]`.

Keys are user strings; nothing of them reaches a subject, a filter or a purge unescaped.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from binascii import a2b_qp
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from foldlog.errors import InvalidId, Misuse

PREFIX: Final = "foldlog"
LIVE_PREFIX: Final = "live"
"""Streams republish `foldlog.>` as `live.foldlog.>`: the push that is only a hint."""

SNAPSHOT_PREFIX: Final = "snapshots"
"""Part 3 of the snapshot of `foldlog.x` stands at `snapshots.3.foldlog.x`."""

BLOB_PREFIX: Final = "blobs"
"""Part 3 of blob `b` of the view at `foldlog.x` stands at `blobs.3.b.foldlog.x`."""

TIMER_PREFIX: Final = "timers"
"""A timer stands at `timers.<namespace>.at.<hash>`, and comes back at `... .due.<hash>`."""

MAX_TOKEN: Final = 120
"""A key whose escaped form is longer is hashed; the envelope then carries the original."""

MAX_ID_BYTES: Final = 16 * 1024
"""What an id may take as UTF-8: it stands in every envelope of a hashed subject."""

_OF_SESSION: Final = "session:"
"""What the trace and the scope of a session are called begins with this, which does not count:
they live on the session's shard.
"""

_CACHED_SUBJECTS: Final = 4_096

_UNSAFE: Final = re.compile(rb"[^A-Za-z0-9_-]")
_HASHED: Final = "=="  # a key cannot escape to this: its own "=" becomes "=3D"
_LIMITED: Final = re.compile(
    rf"{PREFIX}\.[A-Za-z0-9_=-]+\.[0-9]+\.[a-z][a-z0-9_]*(\.[A-Za-z0-9_=-]+)+(\.>)?"
)


class Subject(NamedTuple):
    """One literal subject: the unit of order, of folding and of compare-and-set."""

    name: str
    shard: int
    keys: tuple[str, ...]

    @property
    def family(self) -> str:
        """The kind of envelopes it holds, as in `updates`."""
        return self.name.split(".", 4)[3]

    @property
    def is_hashed(self) -> bool:
        """Whether `name` alone does not tell the keys."""
        return _HASHED in self.name


class Branch(NamedTuple):
    """All subjects of one family whose keys begin with the same ones, and go on: see
    `Namespace.branch`. `name` is the filter over them.
    """

    name: str
    shard: int

    @property
    def family(self) -> str:
        """The kind of envelopes that its subjects hold."""
        return self.name.split(".", 4)[3]

    def holds(self, name: str) -> bool:
        """Whether the subject of that name is one of them."""
        return name.startswith(self.name.removesuffix(">"))


class Namespace:
    """The subjects of one tenant. Immutable.

    Args:
        name: any non-empty string; it is escaped like a key.
        shards: how many streams share the load; a key's shard follows from its hash.
    """

    def __init__(self, name: str = "default", shards: int = 1) -> None:
        self.name = name
        self.shards = shards
        self._token = escape(name, "namespace")
        self._cached = lru_cache(_CACHED_SUBJECTS)(self._build)

    def subject(self, family: str, *keys: str) -> Subject:
        """Return the subject of `family` for `keys`; the first key chooses the shard."""
        for key in keys:
            if key.__class__ is not str:  # before the cache, which takes 1 and 1.0 for the same
                checked_id(key, f"{family} key")
        return self._cached(family, keys)

    def _build(self, family: str, keys: tuple[str, ...]) -> Subject:
        tokens = [escape(key, f"{family} key") for key in keys]
        of_session = keys[0].startswith(_OF_SESSION) and keys[0] != _OF_SESSION
        home = escape(keys[0].removeprefix(_OF_SESSION)) if of_session else tokens[0]
        shard = self._shard(home)
        return Subject(f"{PREFIX}.{self._token}.{shard}.{family}.{'.'.join(tokens)}", shard, keys)

    def branch(self, family: str, first: str, *more: str) -> Branch:
        """Return the subjects of `family` whose keys begin with these and go on.

        There is none of a whole family.
        """
        stem = self.subject(family, first, *more)
        return Branch(f"{stem.name}.>", stem.shard)

    def parse(self, name: str) -> Subject | None:
        """Return the subject that `name` spells, or None if its keys were hashed."""
        _, _, shard, _, *tokens = name.split(".")
        keys = tuple(key for token in tokens if (key := unescape(token)) is not None)
        return Subject(name, int(shard), keys) if len(keys) == len(tokens) else None

    def key_on(self, shard: int, family: str) -> str:
        """The first number whose subject of a family is on a shard."""
        keys = map(str, itertools.count())
        return next(key for key in keys if self.subject(family, key).shard == shard)

    def stream(self, of: int | Literal["blobs", "snapshots", "timers"]) -> str:
        """The name of the JetStream stream that holds a shard, or what stands beside all shards."""
        return f"{PREFIX.upper()}_{self._token}_{of}"

    def everything(self) -> str:
        """The filter over all shards."""
        return f"{PREFIX}.{self._token}.>"

    def timer(self, place: str, key: str = "") -> str:
        """The subject of a timer: `place` is "at" while it is armed, "due" when it is due.

        Without a key, the filter over all.
        """
        token = hashlib.blake2b(key.encode(), digest_size=16).hexdigest() if key else ">"
        return f"{TIMER_PREFIX}.{self._token}.{place}.{token}"

    def mark(self, shard: int) -> str:
        """Where the shard's high-water mark is, among the snapshots."""
        return f"{SNAPSHOT_PREFIX}.mark.{PREFIX}.{self._token}.{shard}"

    def every_timer(self) -> str:
        """The filter over what is armed and what is due."""
        return f"{TIMER_PREFIX}.{self._token}.>"

    def barrier(self, shard: int) -> str:
        """A subject of the shard on which nothing is ever stored: see `Reader.barrier`."""
        return f"{PREFIX}.{self._token}.{shard}.barrier"

    def wildcard(self, shard: int, family: str | None = None) -> str:
        """The filter over a shard, or one family of it. For operators, never for a request."""
        suffix = ">" if family is None else f"{family}.>"
        return f"{PREFIX}.{self._token}.{shard}.{suffix}"

    def _shard(self, token: str) -> int:
        if self.shards == 1:
            return 0
        hashed = hashlib.blake2b(token.encode(), digest_size=8).digest()
        return int.from_bytes(hashed, "big") % self.shards


def checked_filter(matching: str) -> str:
    """Return a filter as it is: one subject, or one branch."""
    if not _LIMITED.fullmatch(matching):
        raise Misuse(f"a purge is of keys of one family, not of {matching!r:.80}")
    return matching


def matching(filters: Sequence[str]) -> Callable[[str], bool]:
    """Return what says whether a subject's name is one of these, or below one that ends in `>`.

    Without filters, every name is.
    """
    names = frozenset(filters)
    stems = tuple(each[:-1] for each in filters if each.endswith(">"))
    return lambda name: not names or name in names or name.startswith(stems)


def snapshot(subject: str, number: int | str) -> str:
    """The subject of part `number` of the snapshot of `subject`; `*` for every part."""
    return f"{SNAPSHOT_PREFIX}.{number}.{subject}"


def blob(subject: str, name: str, part: int | str) -> str:
    """The subject of one part of a blob of `subject`; name and part may be `*`."""
    return f"{BLOB_PREFIX}.{part}.{name}.{subject}"


def live(subject: str) -> str:
    """The subject on which records of `subject` are republished."""
    return f"{LIVE_PREFIX}.{subject}"


def escape(key: str, field: str = "id") -> str:
    """Return `key` as one subject token of `[A-Za-z0-9_-]` and `=`."""
    raw = checked_id(key, field).encode()
    token = _UNSAFE.sub(lambda match: b"=%02X" % match[0][0], raw).decode("ascii")
    if len(token) <= MAX_TOKEN:
        return token
    return _HASHED + hashlib.blake2b(raw, digest_size=24).hexdigest()


def checked_id(key: str, field: str = "id") -> str:
    """Return an id as it is."""
    if key.__class__ is str and key.isascii() and 0 < len(key) <= MAX_ID_BYTES:
        return key
    if not isinstance(key, str):
        raise InvalidId(field, key, f"a string is needed, not {type(key).__name__}")
    if not key:
        raise InvalidId(field, key, "it is empty")
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise InvalidId(field, key, "it holds a lone surrogate") from None
    if size > MAX_ID_BYTES + key.startswith(_OF_SESSION) * len(_OF_SESSION):
        raise InvalidId(field, key, f"it takes {size} bytes, and may take {MAX_ID_BYTES}")
    return key


def unescape(token: str) -> str | None:
    """Return the key that `escape` was given, or None if it was hashed."""
    if token.startswith(_HASHED):
        return None
    if "=" not in token:
        return token
    return a2b_qp(token).decode()  # the same escapes as those of mails, in C
