"""The `artifact_store`: bytes and large texts that a model does not see."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from foldlog.testing.base import Contract, Reopen, Settle
from foldlog.testing.exact import plain, scribble
from foldlog.testing.values import HOSTILE_NAMES

BIG: Final = bytes(range(256)) * 12_000
"""3 MB: more than one message, row or chunk of most backends."""


class ArtifactsContract(Contract):
    """What the specification's `ArtifactStore` protocol promises.

    Attributes:
        artifact_ttl: seconds after which an artifact is certainly gone, by default; a fixture
            `advance_clock` makes them pass.
        hostile_names: file names, types, namespaces and owners that must be data and nothing
            else. Take out what your store refuses by design.
    """

    artifact_ttl: ClassVar[float] = 3600.0
    hostile_names: ClassVar[Sequence[str]] = HOSTILE_NAMES

    async def test_bytes_come_back_as_they_were(self, store: Any) -> None:
        """MUST, ArtifactStore Protocol."""
        ref = await self._put(store, b"\x00\xffpdf")
        assert await store.artifact_store.get(ref.id) == b"\x00\xffpdf"
        assert await store.artifact_store.exists(ref.id) is True

    async def test_a_reference_says_what_was_saved(self, store: Any) -> None:
        """MUST, ArtifactRef: what is best-effort there may be none; it is never wrong."""
        ref = await self._put_report(store)
        assert isinstance(ref.id, str)
        assert ref.id
        assert ref.filename == "report.pdf"
        assert plain(ref.scope) == plain(self._report_scope())
        assert ref.mime_type in ("application/pdf", None)
        assert ref.size_bytes in (5, None)
        assert ref.sha256 in (hashlib.sha256(b"\x00\xffpdf").hexdigest(), None)
        assert plain(await store.artifact_store.get_ref(ref.id)) == plain(ref)

    async def test_a_reference_says_all_of_it(self, store: Any) -> None:
        """SHOULD, ArtifactRef: the best-effort fields, too, and where it comes from."""
        ref = await store.artifact_store.get_ref((await self._put_report(store)).id)
        assert (ref.mime_type, ref.size_bytes) == ("application/pdf", 5)
        assert ref.sha256 == hashlib.sha256(b"\x00\xffpdf").hexdigest()
        assert plain(ref.source) == {"tool": "chart", "warnings": ["none"]}

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
        assert await store.artifact_store.get(ref.id) == text.encode()
        assert ref.mime_type in ("text/plain", None)
        assert ref.size_bytes in (len(text.encode()), None)
        page = await store.artifact_store.put_text("<p>", mime_type="text/html")
        assert page.mime_type in ("text/html", None)

    async def test_any_size_is_held(self, store: Any) -> None:
        """MUST, ArtifactRetentionConfig: up to 50 MB; this tries three sizes."""
        for data in (b"", b"x", BIG):
            ref = await self._put(store, data)
            assert ref.size_bytes in (len(data), None)
            is_whole = await store.artifact_store.get(ref.id) == data
            assert is_whole, f"{len(data)} bytes did not come back"  # pytest would compare each

    async def test_an_unknown_artifact_is_none(self, store: Any) -> None:
        """MUST, ArtifactStore Protocol: None and False, not an error; and nobody else's."""
        ref = await self._put(store, b"x")
        for unknown in ("nonexistent", *self.hostile_names):
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

    async def test_another_store_sees_a_deletion(
        self, store: Any, beside: Reopen, settled: Settle
    ) -> None:
        """Beyond: gone is gone, in every process."""
        ref = await self._put(store, b"x")
        other = (await beside()).artifact_store
        assert await other.exists(ref.id)
        await store.artifact_store.delete(ref.id)
        await settled()
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
        for name in self.hostile_names:
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
        scope, meta = self.build.scope(), {"l": [1]}
        ref = await store.artifact_store.put_bytes(b"x", scope=scope, meta=meta)
        saved, id_ = plain(ref), ref.id
        for callers in (scope, meta, ref, await store.artifact_store.get_ref(id_)):
            scribble(callers)
            assert plain(await store.artifact_store.get_ref(id_)) == saved

    async def _put_report(self, store: Any) -> Any:
        return await store.artifact_store.put_bytes(
            b"\x00\xffpdf",
            mime_type="application/pdf",
            filename="report.pdf",
            namespace="tool",
            scope=self._report_scope(),
            meta={"tool": "chart", "warnings": ["none"]},
        )

    def _report_scope(self) -> Any:
        return self.build.scope("s", tenant_id="acme", user_id="ada", trace_id="t")

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
        """SHOULD, ArtifactRef: from any process."""
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
        assert len(await store.artifact_store.list()) == 1
        await store.artifact_store.delete(ref.id)
        assert list(await store.artifact_store.list()) == []

    async def test_what_was_listed_may_be_changed(self, store: Any) -> None:
        """Beyond: one reader cannot change what another sees."""
        await store.artifact_store.put_bytes(b"x", scope=self.build.scope(), meta={"l": [1]})
        saved = plain(await store.artifact_store.list())
        assert len(saved) == 1
        scribble(await store.artifact_store.list())
        assert plain(await store.artifact_store.list()) == saved

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
