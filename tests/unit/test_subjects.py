"""No user string reaches a subject unescaped, and no two share one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from foldlog.errors import InvalidId
from foldlog.subjects import MAX_TOKEN, Namespace, checked_filter, escape, live, unescape

IDS = st.text(min_size=1) | st.text(alphabet="ab.=*> \r\n\0/-_~2E", min_size=1, max_size=8)


@given(IDS)
def test_escaping_is_reversible_and_literal(key: str) -> None:
    token = escape(key)
    assert re.fullmatch(r"[A-Za-z0-9_=-]+", token)
    assert unescape(token) in ((key,) if len(token) <= MAX_TOKEN and token[:2] != "==" else (None,))


@given(IDS, IDS)
def test_two_keys_never_share_a_token(one: str, other: str) -> None:
    assert (escape(one) == escape(other)) == (one == other)


@pytest.mark.parametrize("key", ["x" * 5000, "é" * 60, "x" * (MAX_TOKEN + 1)])
def test_long_keys_are_hashed(key: str) -> None:
    token = escape(key)
    assert len(token) <= MAX_TOKEN
    assert token.startswith("==")
    assert unescape(token) is None
    assert Namespace().subject("updates", key).is_hashed


def test_the_longest_key_that_is_kept() -> None:
    assert unescape(escape("x" * MAX_TOKEN)) == "x" * MAX_TOKEN


@pytest.mark.parametrize("key", ["", None, 3, b"x", "\ud800"])
def test_what_is_no_id_is_refused(key: object) -> None:
    with pytest.raises(InvalidId, match="updates key"):
        Namespace().subject("updates", key)  # type: ignore[arg-type]


def test_a_subject_tells_what_it_is_for() -> None:
    subject = Namespace("te nant").subject("trajectory", "s.1", "t*")
    assert subject.name == "foldlog.te=20nant.0.trajectory.s=2E1.t=2A"
    assert subject.family == "trajectory"
    assert Namespace("te nant").parse(subject.name) == subject
    assert live(subject.name) == "live." + subject.name


@given(st.lists(IDS, min_size=1, max_size=30), st.integers(min_value=1, max_value=16))
def test_a_key_stays_on_its_shard(keys: list[str], shards: int) -> None:
    namespace = Namespace(shards=shards)
    for key in keys:
        assert 0 <= namespace.subject("tasks", key).shard < shards
        assert namespace.subject("tasks", key).shard == namespace.subject("updates", key).shard


@given(IDS, IDS)
def test_namespaces_share_neither_stream_nor_blobs(one: str, other: str) -> None:
    a, b = Namespace(one), Namespace(other)
    assert (a.stream(0) == b.stream(0)) == (one == other)
    assert (a.stream("blobs") == b.stream("blobs")) == (one == other)
    assert (a.everything() == b.everything()) == (one == other)


@given(IDS, IDS, IDS)
def test_a_branch_is_what_begins_with_its_keys(one: str, other: str, key: str) -> None:
    namespace = Namespace()
    branch = namespace.branch("scoped", one)
    assert re.fullmatch(r"foldlog\.default\.0\.scoped\.[A-Za-z0-9_=-]+\.>", branch.name)
    assert checked_filter(branch.name) == branch.name
    assert branch.holds(namespace.subject("scoped", one, key).name)
    assert branch.holds(namespace.subject("scoped", other, key).name) == (one == other)
    assert not branch.holds(namespace.subject("scoped", one).name)
    assert not branch.holds(namespace.subject("scopes", one, key).name)
    assert not branch.holds(Namespace("other").subject("scoped", one, key).name)
    assert namespace.branch("scoped", one, key).holds(
        namespace.subject("scoped", one, key, "x").name
    )


@given(IDS, IDS)
def test_every_subject_is_one_that_a_purge_may_be_of(one: str, other: str) -> None:
    name = Namespace(one).subject("updates", other, one).name
    assert checked_filter(name) == name
