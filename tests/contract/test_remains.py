"""What a clearing leaves of a view, and a deletion that is checked."""

from __future__ import annotations

import msgspec
import pytest

import foldlog
from foldlog import ArtifactScope
from foldlog.envelope import Recorded
from tests.conftest import OpenStore


class Used(msgspec.Struct, frozen=True):
    token: str


class Tokens(msgspec.Struct):
    """Those in use, and those that were once."""

    used: list[str] = []
    gone: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.used)


def add(tokens: Tokens, used: Used, _: Recorded) -> Tokens:
    if used.token not in tokens.gone:
        tokens.used.append(used.token)
    return tokens


def left(tokens: Tokens) -> bytes:
    return " ".join(sorted({*tokens.used, *tokens.gone})).encode()


def begun(remains: bytes) -> Tokens:
    return Tokens(gone=remains.decode().split())


tokens = foldlog.Kind(
    "tokens",
    keys=("session_id",),
    owner="session",
    records={"token.used": Used},
    fold=foldlog.Fold(Tokens, add, state=Tokens, remains=(left, begun)),
)


@pytest.mark.parametrize("how", ["delete", "clear_session", "erase_session"])
async def test_a_cleared_view_begins_with_what_remains_of_it(reopen: OpenStore, how: str) -> None:
    store = await reopen(kinds=[tokens])
    for number in range(2):
        await store.append(tokens("trip"), Used("a"), Used(f"{number}"))
        if how == "delete":
            await store.erase(tokens("trip"))
        else:
            await getattr(store, how)("trip")
        assert await store.sessions() == []
    expected, key = Tokens(gone=["0", "1", "a"]), tokens("trip")
    other = await reopen(kinds=[tokens])
    for each in (store, other):
        assert await each.view(key, consistency="strong") == expected
    await other.append(key, Used("a"), Used("b"))
    assert await store.view(key, consistency="strong") == Tokens(["b"], expected.gone)
    assert (await store.rebuild("tokens")).differing == ()


async def test_a_deletion_may_be_refused(reopen: OpenStore) -> None:
    store, other = await reopen(kinds=[tokens]), await reopen(kinds=[tokens])

    class InUse(Exception):
        pass

    def check(state: Tokens) -> None:
        if "a" in state.used:
            raise InUse

    await store.append(tokens("trip"), Used("b"))
    assert await other.view(tokens("trip"), consistency="strong") == Tokens(["b"])
    await store.append(tokens("trip"), Used("a"))
    with pytest.raises(InUse):  # though it may not have heard of that one
        await other.erase(tokens("trip"), check=check)
    assert await store.view(tokens("trip")) == Tokens(["b", "a"])
    await other.append(tokens("fall"), Used("b"))
    await store.erase(tokens("fall"), check=check)
    assert await other.view(tokens("fall"), consistency="strong") == Tokens(gone=["b"])


async def test_a_deletion_of_any_kind_may_be_refused(store: foldlog.Store) -> None:
    class Held(Exception):
        pass

    def check(state: object) -> None:
        if state:
            raise Held

    ref = await store.artifact_store.put_bytes(b"x", scope=ArtifactScope(session_id="trip"))
    with pytest.raises(Held):
        await store.erase(foldlog.kinds.artifacts("trip"), check=check)
    assert await store.artifact_store.get(ref.id) == b"x"
    await store.erase(foldlog.kinds.artifacts("fall"), check=check)
