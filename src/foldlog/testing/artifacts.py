"""The `artifact_store`: bytes and large texts, kept apart from what a model sees."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, ClassVar, Final

from foldlog.testing.base import Contract, Reopen
from foldlog.testing.exact import plain

BIG: Final = bytes(range(256)) * 12_000
"""3 MB: more than one message, row or chunk of most backends."""

HOSTILE_NAMES: Final = (
    "../../etc/passwd",
    "/abs",
    "a\\b",
    "\0",
    "a\r\nb",
    "*.>",
    ".",
    " ",
    "é" * 2_500,
)


class ArtifactsContract(Contract):
    """What the specification's `ArtifactStore` protocol promises.

    Attributes:
        artifact_ttl: seconds after which an artifact is certainly gone, by default; a fixture
            `advance_clock` makes them pass.
    """

    artifact_ttl: ClassVar[float] = 3600.0

    async def test_bytes_come_back_as_they_were(self, store: Any) -> None:
        """MUST, ArtifactStore Protocol."""
        ref = await self._put(store, b"\x00\xffpdf")
        assert await store.artifact_store.get(ref.id) == b"\x00\xffpdf"
        assert await store.artifact_store.exists(ref.id) is True

    async def test_a_reference_says_what_was_saved(self, store: Any) -> None:
        """MUST, ArtifactRef."""
        scope = self.build.scope("s", tenant_id="acme", user_id="ada", trace_id="t")
        meta = {"tool": "chart", "warnings": ["none"]}
        ref = await store.artifact_store.put_bytes(
            b"\x00\xffpdf",
            mime_type="application/pdf",
            filename="report.pdf",
            namespace="tool",
            scope=scope,
            meta=meta,
        )
        assert isinstance(ref.id, str)
        assert ref.id
        assert (ref.mime_type, ref.filename) == ("application/pdf", "report.pdf")
        assert ref.size_bytes == 5
        assert ref.sha256 == hashlib.sha256(b"\x00\xffpdf").hexdigest()
        assert plain(ref.scope) == plain(scope)
        assert plain(ref.source) == meta
        assert plain(await store.artifact_store.get_ref(ref.id)) == plain(ref)

    async def test_artifacts_survive_a_restart(self, store: Any, restart: Reopen) -> None:
        """MUST, Why Implement a StateStore: persisted."""
        ref = await self._put(store, BIG)
        again = (await restart()).artifact_store
        assert await again.get(ref.id) == BIG
        assert plain(await again.get_ref(ref.id)) == plain(ref)

    async def test_text_comes_back_as_utf8(self, store: Any) -> None:
        """MUST, ArtifactStore Protocol: `put_text`."""
        text = "h\u00e9llo \U0001f600"
        ref = await store.artifact_store.put_text(text, scope=self.build.scope())
        assert (ref.mime_type, ref.size_bytes) == ("text/plain", len(text.encode()))
        assert await store.artifact_store.get(ref.id) == text.encode()
        page = await store.artifact_store.put_text("<p>", mime_type="text/html")
        assert page.mime_type == "text/html"

    async def test_any_size_is_held(self, store: Any) -> None:
        """MUST, ArtifactRetentionConfig: up to 50 MB, of which this tries three."""
        for data in (b"", b"x", BIG):
            ref = await self._put(store, data)
            assert ref.size_bytes == len(data)
            assert await store.artifact_store.get(ref.id) == data

    async def test_an_unknown_artifact_is_none(self, store: Any) -> None:
        """MUST, ArtifactStore Protocol: None and False, not an error; and nobody else's."""
        ref = await self._put(store, b"x")
        for unknown in ("nonexistent", *HOSTILE_NAMES):
            assert await store.artifact_store.get(unknown) is None
            assert await store.artifact_store.get_ref(unknown) is None
            assert await store.artifact_store.exists(unknown) is False
            assert await store.artifact_store.delete(unknown) is False
        assert await store.artifact_store.exists(ref.id)

    async def test_a_deleted_artifact_is_gone(self, store: Any) -> None:
        """MUST, ArtifactStore Protocol."""
        ref = await self._put(store, b"x")
        assert await store.artifact_store.delete(ref.id) is True
        assert await store.artifact_store.delete(ref.id) is False
        assert await store.artifact_store.get(ref.id) is None
        assert await store.artifact_store.get_ref(ref.id) is None
        assert await store.artifact_store.exists(ref.id) is False

    async def test_a_deleted_artifact_may_be_saved_again(self, store: Any) -> None:
        """Beyond: deleted is not forbidden."""
        ref = await self._put(store, b"x")
        await store.artifact_store.delete(ref.id)
        again = await self._put(store, b"x")
        assert await store.artifact_store.get(again.id) == b"x"

    async def test_another_store_sees_a_deletion(self, store: Any, beside: Reopen) -> None:
        """Beyond: gone is gone, in every process."""
        ref = await self._put(store, b"x")
        other = (await beside()).artifact_store
        assert await other.exists(ref.id)
        await store.artifact_store.delete(ref.id)
        assert await other.get(ref.id) is None
        assert await other.exists(ref.id) is False

    async def test_different_content_is_different(self, store: Any) -> None:
        """MUST, ArtifactStore Protocol."""
        a, b = await self._put(store, b"a"), await self._put(store, b"b")
        assert a.id != b.id
        assert await store.artifact_store.get(a.id) == b"a"
        assert await store.artifact_store.get(b.id) == b"b"

    async def test_the_same_content_in_two_scopes_is_two_artifacts(self, store: Any) -> None:
        """Beyond: or else a session's end, and its access rights, reach into another."""
        scopes = [
            self.build.scope("session"),
            self.build.scope("other"),
            self.build.scope("session", tenant_id="acme"),
            self.build.scope("session", trace_id="trace"),
        ]
        refs = [await store.artifact_store.put_bytes(b"same", scope=scope) for scope in scopes]
        assert len({ref.id for ref in refs}) == 4
        await store.artifact_store.delete(refs[0].id)
        for ref, scope in zip(refs[1:], scopes[1:], strict=True):
            assert await store.artifact_store.get(ref.id) == b"same"
            found = await store.artifact_store.get_ref(ref.id)
            assert plain(found.scope) == plain(scope)

    async def test_names_are_data_and_never_paths(self, store: Any) -> None:
        """Beyond: a file name comes from a tool, or from its user."""
        for name in HOSTILE_NAMES:
            scope = self.build.scope(name, tenant_id=name, trace_id=name)
            ref = await store.artifact_store.put_bytes(
                b"x", filename=name, namespace=name, mime_type=name, scope=scope, meta={"n": name}
            )
            found = await store.artifact_store.get_ref(ref.id)
            assert (found.filename, found.mime_type) == (name, name)
            assert plain(found.scope) == plain(scope)
            assert found.source == {"n": name}
            assert await store.artifact_store.get(ref.id) == b"x"

    async def test_an_artifact_expires(
        self, store: Any, pass_time: Callable[[float], None]
    ) -> None:
        """MUST, ArtifactRetentionConfig: `ttl_seconds`."""
        old = await self._put(store, b"old")
        pass_time(self.artifact_ttl * 0.6)
        young = await self._put(store, b"young")
        pass_time(self.artifact_ttl * 0.6)
        assert await store.artifact_store.get(old.id) is None
        assert await store.artifact_store.get_ref(old.id) is None
        assert await store.artifact_store.exists(old.id) is False
        assert await store.artifact_store.get(young.id) == b"young"

    async def test_references_belong_to_the_caller(self, store: Any) -> None:
        """Beyond: neither what was passed nor what was returned is the store's own."""
        meta: dict[str, Any] = {"l": [1]}
        ref = await store.artifact_store.put_bytes(b"x", scope=self.build.scope(), meta=meta)
        meta["l"].append(2)
        ref.source["l"].append(3)
        found = await store.artifact_store.get_ref(ref.id)
        assert found.source == {"l": [1]}
        found.source["l"].append(4)
        assert (await store.artifact_store.get_ref(ref.id)).source == {"l": [1]}

    async def _put(self, store: Any, data: bytes) -> Any:
        return await store.artifact_store.put_bytes(data, scope=self.build.scope())


class SessionArtifactsContract(Contract):
    """`list` and `get_with_session_check`, which playgrounds use besides the protocol."""

    async def test_artifacts_are_listed_by_scope(self, store: Any) -> None:
        """SHOULD, PenguiFlow 3.11: what the filter leaves open, it does not ask."""
        await self._fill(store)
        await self._check(store)

    async def test_artifacts_are_listed_after_a_restart(self, store: Any, restart: Reopen) -> None:
        """SHOULD, PenguiFlow 3.11."""
        await self._fill(store)
        await self._check(await restart())

    async def test_the_same_content_in_one_scope_is_one_artifact(self, store: Any) -> None:
        """SHOULD, ArtifactRef: ids are made of the content."""
        scope = self.build.scope()
        await self.at_once(store.artifact_store.put_bytes(b"same", scope=scope) for _ in range(10))
        assert len(await store.artifact_store.list(scope=scope)) == 1

    async def test_two_stores_saving_the_same_content_make_one_artifact(
        self, store: Any, beside: Reopen
    ) -> None:
        """SHOULD, ArtifactRef: whoever saved it."""
        stores, scope = (store, await beside()), self.build.scope()
        refs = await self.at_once(
            stores[n % 2].artifact_store.put_bytes(b"same", scope=scope) for n in range(10)
        )
        assert len({ref.id for ref in refs}) == 1
        assert len(await (await beside()).artifact_store.list(scope=scope)) == 1

    async def test_a_session_check_hides_what_others_own(self, store: Any) -> None:
        """SHOULD, Session-scoped access patterns."""
        scope = self.build.scope("session", trace_id="trace")
        ref = await store.artifact_store.put_bytes(b"secret", scope=scope)
        check = store.artifact_store.get_with_session_check
        assert await check(ref.id, "session") == b"secret"
        assert await check(ref.id, "other") is None
        assert await check(ref.id, "trace") is None
        assert await check("nonexistent", "session") is None

    async def test_a_deleted_artifact_is_not_listed(self, store: Any) -> None:
        """SHOULD, PenguiFlow 3.11."""
        ref = await store.artifact_store.put_bytes(b"x", scope=self.build.scope())
        await store.artifact_store.delete(ref.id)
        assert list(await store.artifact_store.list()) == []

    async def test_what_was_listed_may_be_changed(self, store: Any) -> None:
        """Beyond: one reader cannot change what another sees."""
        await store.artifact_store.put_bytes(b"x", scope=self.build.scope(), meta={"l": [1]})
        [listed] = await store.artifact_store.list()
        listed.source["l"].append(2)
        [again] = await store.artifact_store.list()
        assert again.source == {"l": [1]}

    def _scopes(self) -> dict[str, Any]:
        return {
            "none": None,
            "s1": self.build.scope("s1"),
            "s1t1": self.build.scope("s1", trace_id="t1"),
            "s2t1": self.build.scope("s2", trace_id="t1"),
            "acme": self.build.scope("s1", tenant_id="acme", user_id="ada"),
        }

    async def _fill(self, store: Any) -> None:
        for name, scope in self._scopes().items():
            await store.artifact_store.put_bytes(name.encode(), filename=name, scope=scope)

    async def _check(self, store: Any) -> None:
        scope = self.build.scope
        for wanted, expected in (
            (None, {"none", "s1", "s1t1", "s2t1", "acme"}),
            (scope(None), {"none", "s1", "s1t1", "s2t1", "acme"}),
            (scope("s1"), {"s1", "s1t1", "acme"}),
            (scope(None, trace_id="t1"), {"s1t1", "s2t1"}),
            (scope("s1", trace_id="t1"), {"s1t1"}),
            (scope(None, tenant_id="acme"), {"acme"}),
            (scope("nobody"), set()),
        ):
            listed = [ref.filename for ref in await store.artifact_store.list(scope=wanted)]
            assert len(listed) == len(set(listed))
            assert set(listed) == expected, wanted
