"""The doctor's verdicts, on logs that no test environment has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foldlog.cli.checks import FULL_BYTES, TIGHT_BYTES, Verdict, of_health, size
from foldlog.store import ArchiveHealth, EmbeddedHealth, Health, StreamHealth

STREAM = StreamHealth("FOLDLOG_acme_0", 0, 10, 4096, 3, 1, 10, 1, None, {})
EMBEDDED = EmbeddedHealth("/data", 42, 4222, "/data/server.log")
HEALTH = Health(
    url="nats://127.0.0.1:4222",
    namespace="acme",
    server_version="2.15.1",
    api_level=5,
    rtt_seconds=0.0004,
    durability="fsync",
    max_payload=8_388_608,
    streams=(STREAM,),
    embedded=EMBEDDED,
    hot_views=0,
)
CLUSTERED = replace(STREAM, replicas=3, leader="n1", peers_lag={"n2": 0, "n3": 0})


def verdicts(health: Health, free_bytes: int | None = None) -> dict[str, Verdict]:
    """By the first word of each check's name."""
    return {check.name.split()[0]: check.verdict for check in of_health(health, free_bytes)}


def of_stream(stream: StreamHealth) -> dict[str, Verdict]:
    """The verdicts on a log with this stream on a server elsewhere."""
    return verdicts(replace(HEALTH, embedded=None, streams=(stream,)))


def test_an_embedded_server_in_good_health() -> None:
    """Everything can be verified, and is fine."""
    assert set(verdicts(HEALTH, TIGHT_BYTES).values()) == {Verdict.OK}


def test_what_a_client_cannot_see_of_a_server_elsewhere_is_unknown() -> None:
    """Neither its sync_interval nor its disk; that is no failure."""
    seen = verdicts(replace(HEALTH, embedded=None, durability="unknown", streams=(CLUSTERED,)))
    assert seen["durability"] is Verdict.UNKNOWN
    assert seen["disk"] is Verdict.UNKNOWN
    assert Verdict.FAIL not in seen.values()
    assert "process" not in seen


def test_relaxed_durability_is_warned_about() -> None:
    """It is opt-in, and lossy."""
    assert verdicts(replace(HEALTH, durability="relaxed"))["durability"] is Verdict.WARN


def test_an_archive_says_how_far_it_reaches() -> None:
    archived = ArchiveHealth(0, 3, 20, 4096, 8, 2, "2026-01-01T00:00:00Z", "a1")
    [check] = [c for c in of_health(replace(HEALTH, archive=(archived,)), None) if "arch" in c.name]
    assert check.found == (
        "3 segments, 20 records, 4.1 kB, up to sequence 8; the log is 2 sequences further; "
        "archiver a1 is at work"
    )


def test_a_server_that_is_being_restarted() -> None:
    """It has no pid just now."""
    assert verdicts(replace(HEALTH, embedded=replace(EMBEDDED, pid=None)))["process"] == "warn"


def test_a_slow_round_trip() -> None:
    """Every save waits for it."""
    assert verdicts(replace(HEALTH, rtt_seconds=0.3))["round"] is Verdict.WARN


@pytest.mark.parametrize(
    ("free", "verdict"),
    [(TIGHT_BYTES - 1, Verdict.WARN), (FULL_BYTES, Verdict.WARN), (FULL_BYTES - 1, Verdict.FAIL)],
)
def test_a_disk_that_fills(free: int, verdict: Verdict) -> None:
    """First a warning, then a failure."""
    assert verdicts(HEALTH, free)["disk"] is verdict


@pytest.mark.parametrize(
    ("stream", "replicas", "lag"),
    [
        (CLUSTERED, Verdict.OK, Verdict.OK),
        (STREAM, Verdict.WARN, Verdict.OK),
        (replace(CLUSTERED, leader=None, peers_lag={}), Verdict.FAIL, Verdict.OK),
        (replace(CLUSTERED, peers_lag={"n2": 0}), Verdict.OK, Verdict.WARN),
        (replace(CLUSTERED, peers_lag={"n2": 0, "n3": 7}), Verdict.OK, Verdict.WARN),
    ],
    ids=["healthy", "one copy", "no leader", "peer missing", "peer behind"],
)
def test_replicas(stream: StreamHealth, replicas: Verdict, lag: Verdict) -> None:
    """What a cluster of three may look like."""
    seen = of_stream(stream)
    assert (seen["replicas"], seen["lag"]) == (replicas, lag)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (8_388_608, "8.4 MB")]
)
def test_sizes(count: int, text: str) -> None:
    """In the unit that keeps them short."""
    assert size(count) == text
