"""The words of scoped state, and their JSON: what the Rust crate writes reads back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from foldlog import InvalidId, PayloadError
from foldlog.scoped import (
    ContentKind,
    Effect,
    Lifetime,
    MemoryLink,
    MemoryTier,
    Scope,
    SearchOptions,
    SearchResult,
    StoreOptions,
)

# As serde_json writes layer0's types.
SCOPES = {
    '{"session":"s1"}': Scope.session("s1"),
    '{"workflow":"wf"}': Scope.workflow("wf"),
    '{"agent":{"workflow":"wf","agent":"a"}}': Scope.agent("wf", "a"),
    '"global"': Scope.global_(),
    '{"custom":"team"}': Scope.custom("team"),
}


@pytest.mark.parametrize("text", SCOPES)
def test_a_scope_reads_back_and_is_written_the_same(text: str) -> None:
    scope = SCOPES[text]
    assert Scope.from_json(json.loads(text)) == scope
    assert json.dumps(scope.to_json(), separators=(",", ":")) == text


def test_a_later_crates_operator_is_an_agent() -> None:
    later = {"operator": {"workflow": "wf", "operator": "a"}}
    assert Scope.from_json(later) == Scope.agent("wf", "a")


@pytest.mark.parametrize("bad", [None, "session", {}, {"session": "a", "custom": "b"}, {"x": "y"}])
def test_what_is_no_scope_is_refused(bad: Any) -> None:
    with pytest.raises(PayloadError):
        Scope.from_json(bad)


@pytest.mark.parametrize("id", ["", 7, "\ud800"])
def test_an_id_that_is_none_is_refused(id: Any) -> None:
    for make in (Scope.session, Scope.workflow, Scope.custom):
        with pytest.raises(InvalidId):
            make(id)
    with pytest.raises(InvalidId):
        Scope.agent("wf", id)


IDS = st.text(st.sampled_from("ab:1 é/"), min_size=1, max_size=4)
ANY_SCOPE = st.one_of(
    st.builds(Scope.session, IDS),
    st.builds(Scope.workflow, IDS),
    st.builds(Scope.agent, IDS, IDS),
    st.just(Scope.global_()),
    st.builds(Scope.custom, IDS),
)


@given(ANY_SCOPE, ANY_SCOPE)
def test_two_scopes_have_two_keys(one: Scope, other: Scope) -> None:
    assert (one.subject_key == other.subject_key) == (one == other)


def test_options_read_back_and_leave_out_what_is_not_set() -> None:
    text = (
        '{"tier":"warm","lifetime":"session","content_kind":"episodic","salience":0.5,"ttl":1500}'
    )
    options = StoreOptions.from_json(json.loads(text))
    assert options == StoreOptions(
        tier=MemoryTier.WARM,
        lifetime=Lifetime.SESSION,
        content_kind=ContentKind.EPISODIC,
        salience=0.5,
        ttl=1500,
    )
    assert json.dumps(options.to_json(), separators=(",", ":")) == text
    assert StoreOptions().to_json() == {}
    # The crate writes a tier that is not set as null.
    assert StoreOptions.from_json({"tier": None}) == StoreOptions()


def test_a_kind_of_ones_own_is_none_of_the_four() -> None:
    kind = ContentKind.custom("episodic")
    assert kind != ContentKind.EPISODIC
    assert kind.to_json() == {"custom": "episodic"}
    assert ContentKind.from_json({"custom": "episodic"}) == kind
    assert ContentKind.from_json("procedural") is ContentKind.PROCEDURAL
    assert len({kind, ContentKind.EPISODIC, ContentKind.custom("episodic")}) == 2


@pytest.mark.parametrize(
    "bad",
    [
        {"tier": "lukewarm"},
        {"lifetime": 1},
        {"content_kind": "odd"},
        {"salience": 1.5},
        {"salience": float("nan")},
        {"salience": True},
        {"ttl": -1},
        {"ttl": 1.5},
        {"ttl": 10**30},
        {"ttl": 2**64},
        [],
    ],
)
def test_options_that_are_none_are_refused(bad: Any) -> None:
    with pytest.raises(PayloadError):
        StoreOptions.from_json(bad)


def test_search_options_links_and_results_read_back() -> None:
    options = SearchOptions.from_json({"min_score": 0.25, "tier": "cold", "max_depth": 2})
    assert options == SearchOptions(min_score=0.25, tier=MemoryTier.COLD, max_depth=2)
    assert options.to_json() == {"min_score": 0.25, "tier": "cold", "max_depth": 2}
    link = MemoryLink.from_json(
        {"from_key": "a", "to_key": "b", "relation": "references", "metadata": {"by": [1, None]}}
    )
    assert link == MemoryLink("a", "b", "references", {"by": [1, None]})
    assert MemoryLink("a", "b", "r").to_json() == {"from_key": "a", "to_key": "b", "relation": "r"}
    # The crate writes a snippet that it has not as null.
    assert SearchResult.from_json({"key": "k", "score": 1, "snippet": None}) == SearchResult(
        "k", 1.0
    )
    assert SearchResult("k", 0.5).to_json() == {"key": "k", "score": 0.5}


EFFECTS = {
    '{"type":"write_memory","scope":{"session":"s"},"key":"k","value":{"a":[1,null]},'
    '"tier":"hot","ttl":5}': Effect.WriteMemory(
        Scope.session("s"), "k", {"a": [1, None]}, StoreOptions(tier=MemoryTier.HOT, ttl=5)
    ),
    '{"type":"delete_memory","scope":"global","key":"k"}': Effect.DeleteMemory(
        Scope.global_(), "k"
    ),
    '{"type":"link_memory","scope":"global","link":'
    '{"from_key":"a","to_key":"b","relation":"r"}}': Effect.LinkMemory(
        Scope.global_(), MemoryLink("a", "b", "r")
    ),
    '{"type":"unlink_memory","scope":"global","from_key":"a","to_key":"b","relation":"r"}': (
        Effect.UnlinkMemory(Scope.global_(), "a", "b", "r")
    ),
}


@pytest.mark.parametrize("text", EFFECTS)
def test_an_effect_reads_back_and_is_written_the_same(text: str) -> None:
    effect = EFFECTS[text]
    assert Effect.from_json(json.loads(text)) == effect
    assert json.dumps(Effect.to_json(effect), separators=(",", ":")) == text
    # As later versions wrap it.
    assert Effect.from_json({"meta": {"effect_id": "e"}, "kind": json.loads(text)}) == effect


@pytest.mark.parametrize(
    "bad",
    [
        None,
        {},
        {"type": "log", "level": "info", "message": "m"},
        {"type": "write_memory", "scope": "global", "key": "k"},
        {"type": "delete_memory", "scope": "nowhere", "key": "k"},
        {"type": "link_memory", "scope": "global", "link": {"from_key": "a"}},
    ],
)
def test_what_is_no_effect_on_memory_is_refused(bad: Any) -> None:
    with pytest.raises(PayloadError):
        Effect.from_json(bad)
