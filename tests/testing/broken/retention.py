"""Broken in how much they keep."""

from __future__ import annotations

from functools import cached_property

from foldlog.models import ArtifactRef
from tests.testing.broken.registry import BYTES, TRACE, each_limit, found_by
from tests.testing.plain_artifacts import Artifact, PlainArtifacts, Refused
from tests.testing.plain_store import PlainStore

NO_LIMIT = 1_000_000_000


@found_by(
    *each_limit("Retention.test_lru_evicts_what_was_read_longest_ago"),
)
class EvictsByAge(PlainStore):
    """Takes "lru" for "fifo"."""

    class Artifacts(PlainArtifacts):
        def going(self, artifact: Artifact) -> int:
            return 0


@found_by(
    *each_limit("Retention.test_fifo_evicts_the_oldest"),
)
class EvictsByReads(PlainStore):
    """Takes "fifo" for "lru"."""

    class Artifacts(PlainArtifacts):
        def going(self, artifact: Artifact) -> int:
            return artifact.read


@found_by(
    *each_limit("Retention.test_none_evicts_nothing_and_refuses"),
    *each_limit(
        "Retention.test_what_can_never_fit_evicts_nothing", limits=BYTES, strategies=("none",)
    ),
)
class TakesNoneForNoLimit(PlainStore):
    """Where nothing may be evicted, nothing is refused."""

    class Artifacts(PlainArtifacts):
        def make_room(self, new: ArtifactRef) -> None:
            if self.retention.cleanup_strategy != "none":
                super().make_room(new)


@found_by(
    "Retention.test_what_can_never_fit_evicts_nothing[fifo-max_trace_bytes]",
    "Retention.test_what_can_never_fit_evicts_nothing[lru-max_trace_bytes]",
    "Retention.test_what_can_never_fit_evicts_nothing[none-max_trace_bytes]",
    *each_limit("Retention.test_each_session_and_trace_counts_alone", limits=TRACE),
    *each_limit("Retention.test_fifo_evicts_the_oldest", limits=TRACE),
    *each_limit("Retention.test_lru_evicts_what_was_read_longest_ago", limits=TRACE),
    *each_limit("Retention.test_none_evicts_nothing_and_refuses", limits=TRACE),
)
class HasNoLimitPerTrace(PlainStore):
    class Artifacts(PlainArtifacts):
        def make_room(self, new: ArtifactRef) -> None:
            limits = {"max_artifacts_per_trace": NO_LIMIT, "max_trace_bytes": NO_LIMIT}
            self.retention = self.retention.model_copy(update=limits)
            super().make_room(new)


@found_by(
    "Retention.test_one_artifact_over_the_limit_is_refused",
)
class ChecksNoSize(PlainStore):
    class Artifacts(PlainArtifacts):
        def make_room(self, new: ArtifactRef) -> None:
            limit = {"max_artifact_bytes": NO_LIMIT}
            self.retention = self.retention.model_copy(update=limit)
            super().make_room(new)


@found_by(
    *each_limit("Retention.test_each_session_and_trace_counts_alone"),
)
class CountsEverybodyTogether(PlainStore):
    """One budget for all sessions and traces."""

    class Artifacts(PlainArtifacts):
        def members(self, part: str, new: ArtifactRef) -> list[Artifact]:
            return sorted(self.held.values(), key=self.going)


@found_by(
    "Retention.test_limits_hold_for_a_store_opened_later",
)
class CountsItsOwnOnly(PlainStore):
    """What another process saved, or this one before its restart, does not count."""

    class Artifacts(PlainArtifacts):
        @cached_property
        def mine(self) -> set[str]:
            return set()

        def make_room(self, new: ArtifactRef) -> None:
            super().make_room(new)
            self.mine.add(new.id)

        def members(self, part: str, new: ArtifactRef) -> list[Artifact]:
            return [each for each in super().members(part, new) if each.ref.id in self.mine]


@found_by(
    "Retention.test_one_artifact_over_the_limit_is_refused",
    *each_limit(
        "Retention.test_what_can_never_fit_evicts_nothing", limits=BYTES, strategies=("fifo", "lru")
    ),
)
class EvictsForWhatCanNeverFit(PlainStore):
    """Evicts until it fits, or until nothing is left."""

    class Artifacts(PlainArtifacts):
        def make_room(self, new: ArtifactRef) -> None:
            try:
                super().make_room(new)
            except Refused:
                if self.retention.cleanup_strategy != "none":
                    for each in self.members("session_id", new):
                        del self.held[each.ref.id]
                raise
