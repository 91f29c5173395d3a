"""What a healthy log looks like from outside, check by check. Pure: facts in, verdicts out."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from foldlog.store import ArchiveHealth, Health, StreamHealth
    from foldlog.store.spool.place import Files

SLOW_SECONDS: Final = 0.1
"""A round trip above this is worth a warning: every durable save takes at least one."""

TIGHT_BYTES, FULL_BYTES = 1_000_000_000, 100_000_000
"""Free disk space below which to warn, and below which to fail: JetStream stops when it is gone."""


class Verdict(StrEnum):
    """OK and FAIL were verified. UNKNOWN is what a client cannot see; it is not a fault."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Check(NamedTuple):
    """One thing looked at, how it is, and what was found."""

    name: str
    verdict: Verdict
    found: str


def of_health(health: Health, free_bytes: int | None) -> Iterator[Check]:
    """Every check of a log that answers. `free_bytes`: of the embedded server's disk."""
    yield Check("server", Verdict.OK, f"nats-server {health.server_version} at {health.url}")
    yield Check("API level", Verdict.OK, f"JetStream API level {health.api_level}")
    yield _round_trip(health.rtt_seconds)
    yield Check("message size", Verdict.OK, f"up to {size(health.max_payload)} a message")
    yield _durability(health)
    yield from _process(health)
    for stream in health.streams:
        yield Check(f"stream {stream.name}", Verdict.OK, _contents(stream))
        yield _replicas(stream, embedded=health.embedded is not None)
        yield _lag(stream)
    for shard in health.archive:
        yield _archive(shard)
        for file, reason in shard.damaged.items():
            yield Check(f"archived file {file}", Verdict.FAIL, reason)
        for file, reason in shard.lost.items():
            yield Check(f"archived file {file}", Verdict.WARN, reason)
    yield _disk(health, free_bytes)


def _round_trip(seconds: float) -> Check:
    verdict = Verdict.OK if seconds < SLOW_SECONDS else Verdict.WARN
    return Check("round trip", verdict, f"{seconds * 1000:.2f} ms")


def _durability(health: Health) -> Check:
    match health.durability:
        case "fsync":
            return Check("durability", Verdict.OK, "fsync: what is acked is on the disk")
        case "relaxed":
            found = "relaxed: a crash of the machine loses up to two minutes of acked writes"
            return Check("durability", Verdict.WARN, found)
        case "none":
            return Check("durability", Verdict.WARN, "in memory: gone with its process")
        case "unknown":
            found = (
                "a client cannot read the sync_interval of a server that foldlog did not start: "
                "look at its configuration for jetstream { sync_interval: always }"
            )
            return Check("durability", Verdict.UNKNOWN, found)


def _process(health: Health) -> Iterator[Check]:
    embedded = health.embedded
    if embedded is None:
        return
    if embedded.pid is None:
        found = f"it is being restarted; see {embedded.log_file}"
        yield Check("process", Verdict.WARN, found)
    else:
        yield Check("process", Verdict.OK, f"pid {embedded.pid}, log {embedded.log_file}")


def _contents(stream: StreamHealth) -> str:
    return (
        f"{stream.messages:,} messages, {stream.subjects:,} subjects, {size(stream.bytes)}, "
        f"sequences {stream.first_seq:,} to {stream.last_seq:,}"
    )


def _replicas(stream: StreamHealth, *, embedded: bool) -> Check:
    name = f"replicas {stream.name}"
    if stream.replicas == 1:
        if embedded:
            return Check(name, Verdict.OK, "1: this disk has the only copy; back it up")
        return Check(name, Verdict.WARN, "1: losing that server's disk loses the log")
    if stream.leader is None:
        return Check(name, Verdict.FAIL, f"{stream.replicas}, and no leader: writes have to wait")
    return Check(name, Verdict.OK, f"{stream.replicas}; the leader is {stream.leader}")


def _lag(stream: StreamHealth) -> Check:
    name = f"lag {stream.name}"
    if stream.replicas == 1:
        return Check(name, Verdict.OK, "no other replica")
    behind = {peer: lag for peer, lag in stream.peers_lag.items() if lag}
    missing = stream.replicas - 1 - len(stream.peers_lag)
    if stream.leader is not None and missing > 0:
        return Check(name, Verdict.WARN, f"{missing} of {stream.replicas} replicas not seen")
    if behind:
        found = ", ".join(f"{peer} is {lag:,} operations behind" for peer, lag in behind.items())
        return Check(name, Verdict.WARN, found)
    return Check(name, Verdict.OK, "every replica is up to date")


def _archive(shard: ArchiveHealth) -> Check:
    found = (
        f"{shard.segments:,} segments, {shard.records:,} records, {size(shard.bytes)}, up to "
        f"sequence {shard.until:,}; the log is {shard.behind:,} sequences further"
    )
    if shard.holder:
        found += f"; archiver {shard.holder} is at work"
    return Check(f"archive of shard {shard.shard}", Verdict.OK, found)


def _disk(health: Health, free_bytes: int | None) -> Check:
    if free_bytes is None or health.embedded is None:
        found = "the disk of a server that foldlog did not start cannot be seen from here"
        return Check("disk", Verdict.UNKNOWN, found)
    found = f"{size(free_bytes)} free at {health.embedded.path}"
    if free_bytes < FULL_BYTES:
        return Check("disk", Verdict.FAIL, found)
    return Check("disk", Verdict.WARN if free_bytes < TIGHT_BYTES else Verdict.OK, found)


def of_spool(files: Files) -> Check:
    """What degrading stores have left on this machine."""
    found = f"{files.directory}: "
    if files.refused or files.damaged:
        found += (
            f"{files.refused} files of saves that the log refused, {files.damaged} damaged ones; "
            f"{files.waiting} wait for it; {size(files.bytes)}"
        )
        return Check("spool", Verdict.FAIL, found)
    if files.waiting:
        found += f"{files.waiting} files, {size(files.bytes)}, wait for a log"
        return Check("spool", Verdict.WARN, found)
    return Check("spool", Verdict.OK, found + "nothing waits")


def size(count: float) -> str:
    """A number of bytes, in the unit that keeps it short."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
