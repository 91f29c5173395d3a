"""Artifacts without a server: the fold, and the decision of what must go."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from foldlog import ArtifactLimitExceeded, ArtifactRetentionConfig
from foldlog.envelope import Recorded
from foldlog.store.references import to_evict, to_go
from foldlog_projections import artifacts
from foldlog_projections.artifacts import Deleted, Held, Saved, Scope
from tests.support.folding import fold


def envelope(id: str, type: str, payload: msgspec.Struct, ts: float = 1.0) -> Recorded:
    raw = msgspec.msgpack.encode(payload)
    return Recorded(id, type, 1, ts, raw, None, 1, 0, "2026-01-01T00:00:00Z")


def save(id: str, artifact: str = "a", **fields: Any) -> Recorded:
    values = {"sha256": "", "size_bytes": 10, "blob": f"blob-{id}", **fields}
    return envelope(id, artifacts.SAVED, Saved(artifact_id=artifact, **values))


def delete(id: str, saved: str, artifact: str = "a") -> Recorded:
    return envelope(id, artifacts.DELETED, Deleted(artifact, saved))


def state(*log: Recorded) -> dict[str, Held]:
    return fold(artifacts.kind, log).state


def blobs(*log: Recorded) -> list[str]:
    return [held.saved.blob for held in state(*log).values()]


# --- the fold -----------------------------------------------------------------------------------


def test_artifacts_stand_in_the_order_of_first_saves() -> None:
    assert blobs(save("1", "a"), save("2", "b")) == ["blob-1", "blob-2"]


def test_the_first_save_stands_until_it_is_deleted() -> None:
    assert blobs(save("1"), save("2")) == ["blob-1"]
    assert blobs(save("1"), delete("d", "1")) == []
    assert blobs(save("1"), delete("d", "1"), save("2")) == ["blob-2"]


def test_a_deletion_concerns_the_save_that_it_names_and_no_other() -> None:
    assert blobs(save("2"), delete("d", "1")) == ["blob-2"]
    assert blobs(delete("d", "1")) == []
    assert blobs(save("1"), delete("d", "1"), save("2"), delete("e", "1")) == ["blob-2"]


@given(st.lists(st.tuples(st.sampled_from("sd"), st.integers(0, 5), st.sampled_from("ab"))))
def test_a_blob_that_has_gone_never_comes_back(steps: list[tuple[str, int, str]]) -> None:
    log: list[Recorded] = []
    gone: set[str] = set()
    before: set[str] = set()
    for place, (kind, number, artifact) in enumerate(steps):
        log.append(
            save(str(place), artifact)
            if kind == "s"
            else delete(f"d{place}", str(number), artifact)
        )
        now = set(blobs(*log))
        gone |= before - now
        assert not now & gone
        before = now


def test_an_artifact_expires_a_while_after_its_writer_saved_it() -> None:
    assert [held.expires_at for held in state(save("1", ttl=5)).values()] == [6.0]
    assert [held.expires_at for held in state(save("1")).values()] == [float("inf")]


# --- what must go -------------------------------------------------------------------------------


def retention(**settings: Any) -> ArtifactRetentionConfig:
    return ArtifactRetentionConfig(**{"cleanup_strategy": "fifo", **settings})


def held(*sizes: int, trace: str | None = None) -> list[Held]:
    return [
        Held(str(i), i, float(i), Saved(str(i), "", size, scope=Scope(None, None, "s", trace)))
        for i, size in enumerate(sizes)
    ]


def new(size: int, trace: str | None = None) -> Saved:
    return Saved("new", "", size, scope=Scope(None, None, "s", trace))


def evicted(found: list[Held], made: Saved, settings: ArtifactRetentionConfig) -> list[str]:
    return [each.id for each in to_evict(found, made, settings)]


def test_nothing_goes_while_there_is_room() -> None:
    assert evicted(held(10, 10), new(10), retention(max_session_bytes=30)) == []
    assert evicted(held(10, 10), new(10), retention(max_artifacts_per_session=3)) == []


def test_as_many_go_as_it_takes_and_no_more() -> None:
    assert evicted(held(10, 10, 10), new(15), retention(max_session_bytes=30)) == ["0", "1"]
    assert evicted(held(1, 1, 1), new(1), retention(max_artifacts_per_session=1)) == ["0", "1", "2"]


def test_a_trace_pays_for_itself() -> None:
    found = [*held(10, 10), *(each._replace(id="t") for each in held(10, trace="t"))]
    assert evicted(found, new(1, "t"), retention(max_artifacts_per_trace=1)) == ["t"]
    assert evicted(found, new(1, "u"), retention(max_artifacts_per_trace=1)) == []


def test_what_a_trace_gives_up_makes_room_in_its_session() -> None:
    found = [*held(10), *(each._replace(id="t") for each in held(10, trace="t"))]
    limits = retention(max_artifacts_per_trace=1, max_artifacts_per_session=2)
    assert evicted(found, new(1, "t"), limits) == ["t"]


@pytest.mark.parametrize(
    ("limit", "allowed"),
    [
        ("max_session_bytes", 9),
        ("max_trace_bytes", 9),
        ("max_artifacts_per_session", 0),
        ("max_artifacts_per_trace", 0),
    ],
)
@pytest.mark.parametrize("strategy", ["lru", "fifo", "none"])
def test_what_can_never_fit_is_refused(limit: str, allowed: int, strategy: str) -> None:
    settings = retention(cleanup_strategy=strategy, **{limit: allowed})
    with pytest.raises(ArtifactLimitExceeded) as refused:
        to_evict(held(1, trace="t"), new(10, "t"), settings)
    assert (refused.value.limit, refused.value.allowed) == (limit, allowed)


def test_without_clean_up_a_full_session_refuses() -> None:
    settings = retention(cleanup_strategy="none", max_artifacts_per_session=2)
    assert evicted(held(1), new(1), settings) == []
    with pytest.raises(ArtifactLimitExceeded, match="session 's'"):
        to_evict(held(1, 1), new(1), settings)


@given(st.lists(st.integers(0, 20)), st.integers(0, 20), st.integers(0, 60), st.integers(0, 8))
def test_what_is_left_always_fits(sizes: list[int], size: int, most: int, many: int) -> None:
    settings = retention(max_session_bytes=most, max_artifacts_per_session=many)
    try:
        going = to_evict(held(*sizes), new(size), settings)
    except ArtifactLimitExceeded:
        assert size > most or many < 1
        return
    left = sizes[len(going) :]
    assert [each.seq for each in going] == list(range(len(going)))
    assert sum(left) + size <= most
    assert len(left) + 1 <= many


def test_the_last_read_goes_last_where_reads_count() -> None:
    found = {each.id: each for each in held(1, 1, 1)}

    def going(strategy: str, read_at: dict[str, float]) -> list[str]:
        settings = retention(cleanup_strategy=strategy, max_artifacts_per_session=1)
        return [each.id for each in to_go(found, new(1), settings, now=0.0, read_at=read_at)]

    assert going("lru", {"0": 9.0}) == ["1", "2", "0"]
    assert going("lru", {"2": 0.5}) == ["0", "1", "2"]
    assert going("fifo", {"0": 9.0}) == ["0", "1", "2"]


def test_what_has_expired_goes_first_and_before_all_what_is_saved_anew() -> None:
    found = {each.id: each for each in held(1, 1, 1, 1)}
    over = {id: msgspec.structs.replace(found[id].saved, ttl=1) for id in ("1", "2")}
    found |= {id: found[id]._replace(saved=saved) for id, saved in over.items()}
    again = msgspec.structs.replace(new(1), artifact_id="2")
    settings = retention(max_artifacts_per_session=2)
    going = to_go(found, again, settings, now=10.0, read_at={})
    assert [each.id for each in going] == ["2", "1", "0"]
