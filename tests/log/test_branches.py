"""Branches: all subjects that begin alike go, and come, at once; no other does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from foldlog.envelope import Draft, draft
from foldlog.errors import Misuse, ReadOnlyStore
from foldlog.log.jetstream import JetStreamLog
from foldlog.log.memory import MemoryLog
from foldlog.log.past import PastLog
from foldlog.log.port import Append, Log
from foldlog.subjects import Branch, Namespace, Subject
from tests.log.conftest import OpenLog

NAMES = [
    "session:a",
    "session:a:b",
    "session",
    "s",
    "S",
    "a",
    "a.b",
    "a.*",
    "a.>",
    "a.b.c",
    "*",
    ">",
    ".",
    "..",
    "a b\r\n\0",
    "=2E",
    "==",
    "a=2Eb",
    "scoped",
    "foldlog.default.0.scoped.a",
    "x" * 120,
    "x" * 121,
    "x" * 5000,
    "é" * 200,
]
"""First keys: prefixes of one another, and what a server reads as more than a character."""

KEYS = ["k", "a", "a.b", ">", "y" * 3000]


def made(id: str, payload: bytes = b"\xc0") -> Draft:
    return draft("test.made", payload, id=id)


async def append(log: Log, *subjects: Subject, id: str = "1") -> list[int]:
    return await log.append(
        [Append(each, (msgspec.structs.replace(made(id), keys=each.keys),)) for each in subjects]
    )


async def counts(log: Log) -> dict[str, int]:
    return {subject.name: count for subject, count in (await log.subjects()).items()}


def family(log: Log, first: str) -> list[Subject]:
    """What a branch of that first key is of."""
    namespace = log.namespace
    nested = namespace.subject("scoped", first, "k", "deeper")
    return [*(namespace.subject("scoped", first, key) for key in KEYS), nested]


def beside(log: Log, first: str) -> list[Subject]:
    """What begins alike, and is none of it."""
    namespace = log.namespace
    return [
        namespace.subject("scoped", first),
        namespace.subject("scopes", first),
        namespace.subject("scopes", first, "k"),
        namespace.subject("trajectory", first, "k"),
        namespace.subject("trajectory", "k", first),
    ]


async def test_a_branch_is_purged_and_nothing_else(log: Log) -> None:
    branches = {first: family(log, first) for first in NAMES}
    others = [subject for first in NAMES for subject in beside(log, first)]
    within = {subject for subjects in branches.values() for subject in subjects}
    others = [each for each in dict.fromkeys(others) if each not in within]
    await append(log, *others)
    for subjects in branches.values():
        await append(log, *subjects)
    [head] = await append(log, others[0], id="2")
    left = {each.name: 1 for each in (*others, *within)}
    left[others[0].name] = 2
    assert await counts(log) == left
    for first, subjects in branches.items():
        await log.purge(log.namespace.branch("scoped", first), before=head + 1)
        for each in subjects:
            del left[each.name]
        assert await counts(log) == left
    assert len(left) == len(others)


async def test_a_branch_keeps_what_is_not_older(log: Log) -> None:
    one, two, three = (log.namespace.subject("scoped", "s", key) for key in "abc")
    await append(log, one, two, three)
    [bound] = await append(log, two, id="2")
    await append(log, one, id="3")
    branch = log.namespace.branch("scoped", "s")
    for nothing in (0, 1):
        await log.purge(branch, before=nothing)
        assert await counts(log) == {one.name: 2, two.name: 2, three.name: 1}
    await log.purge(branch, before=bound)
    assert await counts(log) == {one.name: 1, two.name: 1}
    [end] = await append(log, one, id="4")
    assert end > bound
    await log.purge(branch, before=bound)
    assert await counts(log) == {one.name: 2, two.name: 1}


async def test_a_branch_is_of_its_shard(open_log: OpenLog) -> None:
    log = await open_log(shards=4)
    subjects = [log.namespace.subject("scoped", f"s{n}", "k") for n in range(12)]
    assert {each.shard for each in subjects} == {0, 1, 2, 3}
    await append(log, *subjects)
    await log.purge(log.namespace.branch("scoped", "s7"), before=10**6)
    kept = [each for each in subjects if each.keys[0] != "s7"]
    assert sorted(await log.subjects()) == sorted(kept)


async def test_a_branch_of_another_namespace_is_none_of_this_one(log: Log) -> None:
    subject = log.namespace.subject("scoped", "s", "k")
    await append(log, subject)
    await log.purge(Namespace("other").branch("scoped", "s"), before=10**6)
    assert await counts(log) == {subject.name: 1}


@pytest.mark.parametrize(
    "matching",
    [
        "",
        ">",
        "*",
        "foldlog.>",
        "foldlog.default.>",
        "foldlog.default.0.>",
        "foldlog.default.0.scoped",
        "foldlog.default.0.scoped.>",
        "foldlog.default.0.scoped.*",
        "foldlog.default.0.scoped.*.>",
        "foldlog.default.0.scoped.s.*",
        "foldlog.default.0.*.s.>",
        "foldlog.default.*.scoped.s.>",
        "foldlog.*.0.scoped.s.>",
        "foldlog.default.0.scoped.s..>",
        "foldlog.default.0.scoped.s.>.>",
        "foldlog.default.0.scoped.s.>\n",
        " foldlog.default.0.scoped.s.>",
        "live.foldlog.default.0.scoped.s.>",
    ],
)
async def test_what_is_no_branch_purges_nothing(log: Log, matching: str) -> None:
    subject = log.namespace.subject("scoped", "s", "k")
    await append(log, subject)
    with pytest.raises(Misuse, match="one family"):
        await log.purge(Branch(matching, 0), before=10**6)
    if isinstance(log, JetStreamLog):
        with pytest.raises(Misuse, match="one family"):
            await log.purge(Subject(matching, 0, ()), before=10**6)
    assert await counts(log) == {subject.name: 1}


async def test_a_purge_of_a_branch_is_no_loss(log: Log) -> None:
    subjects = [log.namespace.subject("scoped", "s", f"{n}") for n in range(5)]
    await append(log, *subjects)
    await log.purge(log.namespace.branch("scoped", "s"), before=4)
    assert await log.check() == []


async def test_the_past_has_no_branch_purged() -> None:
    below = MemoryLog()

    async def never() -> Any:
        raise AssertionError("nobody reads")

    with pytest.raises(ReadOnlyStore):
        await PastLog(below, never).purge(below.namespace.branch("scoped", "s"), before=9)
