"""Broken in what they keep as artifacts."""

from __future__ import annotations

from functools import cached_property
from typing import Any
from uuid import uuid4

from foldlog.models import ArtifactRef, ArtifactScope
from tests.testing.broken.registry import each_limit, found_by
from tests.testing.plain_artifacts import NOBODY, Artifact, PlainArtifacts
from tests.testing.plain_store import PlainStore


@found_by(
    "Artifacts.test_names_are_data_and_never_paths",
    "Artifacts.test_the_same_content_in_two_scopes_is_two_artifacts",
    *each_limit("Retention.test_each_session_and_trace_counts_alone"),
)
class NamesArtifactsByContent(PlainStore):
    """One id for the same bytes, whoever owns them."""

    class Artifacts(PlainArtifacts):
        def name(self, data: bytes, namespace: str | None, scope: ArtifactScope | None) -> str:
            return super().name(data, None, None)


@found_by(
    "SessionArtifacts.test_the_same_content_in_one_scope_is_one_artifact",
    "SessionArtifacts.test_two_stores_saving_the_same_content_make_one_artifact",
    *each_limit(
        "Retention.test_the_same_content_again_costs_nothing", strategies=("fifo", "lru", "none")
    ),
)
class NamesArtifactsByChance(PlainStore):
    """A retry is one more artifact."""

    class Artifacts(PlainArtifacts):
        def name(self, data: bytes, namespace: str | None, scope: ArtifactScope | None) -> str:
            return uuid4().hex


@found_by(
    "Artifacts.test_different_content_is_different",
    "Retention.test_limits_hold_for_a_store_opened_later",
    *each_limit("Retention.test_each_session_and_trace_counts_alone"),
    *each_limit("Retention.test_fifo_evicts_the_oldest"),
    *each_limit("Retention.test_lru_evicts_what_was_read_longest_ago"),
    *each_limit("Retention.test_none_evicts_nothing_and_refuses"),
)
class NamesArtifactsByTheirSize(PlainStore):
    """Takes what is as long for the same."""

    class Artifacts(PlainArtifacts):
        def name(self, data: bytes, namespace: str | None, scope: ArtifactScope | None) -> str:
            return super().name(str(len(data)).encode(), namespace, scope)


@found_by(
    "Artifacts.test_any_size_is_held",
    "Artifacts.test_artifacts_survive_a_restart",
    "Artifacts.test_bytes_come_back_as_they_were",
)
class KeepsTextOnly(PlainStore):
    """A column of text: what is not UTF-8 is replaced."""

    class Artifacts(PlainArtifacts):
        def encoded(self, data: bytes) -> bytes:
            return data.decode("utf-8", "replace").encode()


@found_by(
    "Artifacts.test_text_comes_back_as_utf8",
)
class EncodesTextAsLatin1(PlainStore):
    class Artifacts(PlainArtifacts):
        async def put_text(
            self, text: str, *, mime_type: str = "text/plain", **described: Any
        ) -> ArtifactRef:
            data = text.encode("latin-1", "replace")
            return await self.put_bytes(data, mime_type=mime_type, **described)


@found_by(
    "Artifacts.test_a_reference_says_all_of_it",
    "Artifacts.test_a_reference_says_what_was_saved",
    "Artifacts.test_names_are_data_and_never_paths",
    "Artifacts.test_text_comes_back_as_utf8",
)
class GuessesTheType(PlainStore):
    class Artifacts(PlainArtifacts):
        async def put_bytes(self, data: bytes, **described: Any) -> ArtifactRef:
            described["mime_type"] = "application/octet-stream"
            return await super().put_bytes(data, **described)


@found_by(
    "Artifacts.test_a_reference_says_all_of_it",
    "Artifacts.test_names_are_data_and_never_paths",
)
class ForgetsTheSource(PlainStore):
    class Artifacts(PlainArtifacts):
        async def put_bytes(self, data: bytes, **described: Any) -> ArtifactRef:
            return await super().put_bytes(data, **described | {"meta": None})


@found_by(
    "Artifacts.test_a_deleted_artifact_is_gone",
    "Artifacts.test_a_deleted_artifact_may_be_saved_again",
    "Artifacts.test_another_store_sees_a_deletion",
    "SessionArtifacts.test_a_deleted_artifact_is_not_listed",
    *each_limit("Retention.test_none_evicts_nothing_and_refuses"),
)
class DeletesTheBytesOnly(PlainStore):
    """Leaves the reference."""

    class Artifacts(PlainArtifacts):
        async def delete(self, artifact_id: str) -> bool:
            held = self.held.get(artifact_id)
            if held is None:
                return False
            held.data = None  # type: ignore[assignment]
            return True


@found_by(
    "Artifacts.test_a_deleted_artifact_may_be_saved_again",
)
class RemembersDeletions(PlainStore):
    """What was deleted once is never kept again."""

    class Artifacts(PlainArtifacts):
        async def put_bytes(self, data: bytes, **described: Any) -> ArtifactRef:
            ref = await super().put_bytes(data, **described)
            if ("deleted", ref.id) in self.data.fingerprints:
                await super().delete(ref.id)
            return ref

        async def delete(self, artifact_id: str) -> bool:
            self.data.fingerprints.add(("deleted", artifact_id))
            return await super().delete(artifact_id)


@found_by(
    "Artifacts.test_an_artifact_expires",
)
class KeepsArtifactsForEver(PlainStore):
    class Artifacts(PlainArtifacts):
        def is_over(self, artifact: Artifact) -> bool:
            return False


@found_by(
    "Artifacts.test_another_store_sees_a_deletion",
    *each_limit("Retention.test_fifo_evicts_the_oldest"),
)
class CachesArtifacts(PlainStore):
    """Knows of its own deletions only."""

    class Artifacts(PlainArtifacts):
        @cached_property
        def cache(self) -> dict[str, Artifact]:
            return {}

        def find(self, artifact_id: str) -> Artifact | None:
            found = self.cache.get(artifact_id) or super().find(artifact_id)
            if found is not None:
                self.cache[artifact_id] = found
            return found

        async def delete(self, artifact_id: str) -> bool:
            self.cache.pop(artifact_id, None)
            return await super().delete(artifact_id)


@found_by(
    "SessionArtifacts.test_artifacts_are_listed_after_a_restart",
    "SessionArtifacts.test_artifacts_are_listed_by_scope",
)
class MatchesWholeScopes(PlainStore):
    """Lists what belongs to exactly the scope, not to all that it leaves open."""

    class Artifacts(PlainArtifacts):
        async def list(self, *, scope: ArtifactScope | None = None) -> list[ArtifactRef]:
            listed = await super().list(scope=scope)
            return [ref for ref in listed if scope is None or (ref.scope or NOBODY) == scope]


@found_by(
    "SessionArtifacts.test_a_session_check_hides_what_others_own",
)
class ShowsArtifactsToAnySession(PlainStore):
    class Artifacts(PlainArtifacts):
        async def get_with_session_check(self, artifact_id: str, session_id: str) -> bytes | None:
            return await self.get(artifact_id)
