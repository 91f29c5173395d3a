"""How much an artifact store keeps: `ArtifactRetentionConfig`, limit by limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from foldlog.testing.base import Contract

OpenWithRetention = Callable[..., Awaitable[Any]]

LIMITS: Final[tuple[dict[str, int], ...]] = (
    {"max_artifacts_per_session": 3},
    {"max_artifacts_per_trace": 3},
    {"max_session_bytes": 30},
    {"max_trace_bytes": 30},
)
"""Each allows three artifacts of ten bytes."""

by_limit: Final = pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: next(iter(limit)))


class RetentionContract(Contract):
    """What is removed, and what is refused, when a limit is reached.

    Needs one more fixture, `open_with_retention`: an async callable that takes the fields of
    `ArtifactRetentionConfig` as keywords and returns a store on the data of the test.
    """

    @by_limit
    async def test_lru_evicts_what_was_read_longest_ago(
        self, open_with_retention: OpenWithRetention, limit: dict[str, int]
    ) -> None:
        """MUST, ArtifactRetentionConfig: `cleanup_strategy="lru"`."""
        artifacts = (await open_with_retention(**limit, cleanup_strategy="lru")).artifact_store
        ids = await self._fill_and_read_first(artifacts)
        ids.append(await self._put(artifacts, b"d" * 10))
        assert await self._kept(artifacts, ids) == [True, False, True, True]

    @by_limit
    async def test_fifo_evicts_the_oldest(
        self, open_with_retention: OpenWithRetention, limit: dict[str, int]
    ) -> None:
        """MUST, ArtifactRetentionConfig: `cleanup_strategy="fifo"`."""
        artifacts = (await open_with_retention(**limit, cleanup_strategy="fifo")).artifact_store
        ids = await self._fill_and_read_first(artifacts)
        ids.append(await self._put(artifacts, b"d" * 10))
        assert await self._kept(artifacts, ids) == [False, True, True, True]

    @by_limit
    async def test_none_evicts_nothing_and_refuses(
        self, open_with_retention: OpenWithRetention, limit: dict[str, int]
    ) -> None:
        """SHOULD, ArtifactRetentionConfig: `cleanup_strategy="none"`; a deletion makes space."""
        artifacts = (await open_with_retention(**limit, cleanup_strategy="none")).artifact_store
        ids = await self._fill_and_read_first(artifacts)
        await self._refused(artifacts, b"d" * 10)
        assert await self._kept(artifacts, ids) == [True, True, True]
        assert await artifacts.delete(ids[0])
        assert await artifacts.exists(await self._put(artifacts, b"d" * 10))

    @by_limit
    @pytest.mark.parametrize("strategy", ["lru", "fifo", "none"])
    async def test_the_same_content_again_costs_nothing(
        self, open_with_retention: OpenWithRetention, limit: dict[str, int], strategy: str
    ) -> None:
        """SHOULD, ArtifactRef: it is the same artifact."""
        store = await open_with_retention(**limit, cleanup_strategy=strategy)
        ids = await self._fill_and_read_first(store.artifact_store)
        for _ in range(3):
            await self._put(store.artifact_store, b"c" * 10)
        assert await self._kept(store.artifact_store, ids) == [True, True, True]

    @by_limit
    async def test_each_session_and_trace_counts_alone(
        self, open_with_retention: OpenWithRetention, limit: dict[str, int]
    ) -> None:
        """MUST, ArtifactRetentionConfig: limits *per session* and *per trace*."""
        artifacts = (await open_with_retention(**limit, cleanup_strategy="fifo")).artifact_store
        ids = await self._fill_and_read_first(artifacts)
        elsewhere = [
            await self._put(artifacts, n * 10, "elsewhere", "other")
            for n in (b"a", b"b", b"c", b"d")
        ]
        assert await self._kept(artifacts, ids) == [True, True, True]
        assert await self._kept(artifacts, elsewhere) == [False, True, True, True]

    async def test_one_artifact_over_the_limit_is_refused(
        self, open_with_retention: OpenWithRetention
    ) -> None:
        """MUST, ArtifactRetentionConfig: `max_artifact_bytes`."""
        artifacts = (await open_with_retention(max_artifact_bytes=10)).artifact_store
        kept = await self._put(artifacts, b"x" * 10)
        await self._refused(artifacts, b"x" * 11)
        assert await artifacts.exists(kept)

    @pytest.mark.parametrize("limit", ["max_session_bytes", "max_trace_bytes"])
    @pytest.mark.parametrize("strategy", ["lru", "fifo", "none"])
    async def test_what_can_never_fit_evicts_nothing(
        self, open_with_retention: OpenWithRetention, limit: str, strategy: str
    ) -> None:
        """Beyond: what evicting cannot make fit evicts nothing."""
        store = await open_with_retention(**{limit: 30}, cleanup_strategy=strategy)
        ids = await self._fill_and_read_first(store.artifact_store)
        await self._refused(store.artifact_store, b"x" * 31)
        assert await self._kept(store.artifact_store, ids) == [True, True, True]

    async def test_limits_hold_for_a_store_opened_later(
        self, open_with_retention: OpenWithRetention
    ) -> None:
        """MUST, ArtifactRetentionConfig: what is there counts, from any process."""
        limits = {"max_artifacts_per_session": 3, "cleanup_strategy": "fifo"}
        first = (await open_with_retention(**limits)).artifact_store
        ids = [await self._put(first, n) for n in (b"a", b"b", b"c")]
        second = (await open_with_retention(**limits)).artifact_store
        ids.append(await self._put(second, b"d"))
        assert await self._kept(second, ids) == [False, True, True, True]

    async def _put(
        self, artifacts: Any, data: bytes, trace_id: str = "trace", session_id: str = "session"
    ) -> str:
        scope = self.build.scope(session_id, trace_id=trace_id)
        ref = await artifacts.put_bytes(data, scope=scope)
        return str(ref.id)

    async def _fill_and_read_first(self, artifacts: Any) -> list[str]:
        """Save three artifacts of ten bytes, and read the oldest."""
        ids = [await self._put(artifacts, n * 10) for n in (b"a", b"b", b"c")]
        assert await artifacts.get(ids[0]) == b"a" * 10
        return ids

    async def _kept(self, artifacts: Any, ids: list[str]) -> list[bool]:
        return [await artifacts.exists(id_) for id_ in ids]

    async def _refused(self, artifacts: Any, data: bytes) -> None:
        # Which error it is, the specification leaves open.
        with pytest.raises(Exception):  # noqa: B017, PT011
            await self._put(artifacts, data)
