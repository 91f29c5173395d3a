"""Durable saves on one server, by how many streams a namespace is spread over."""

from __future__ import annotations

from typing import ClassVar

from benchmarks.bench import Bench
from benchmarks.contenders.contender import Saves
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.scenarios import saves

WRITERS = (64, 512)


class TwoShards(Foldlog):
    """A namespace of two streams."""

    name: ClassVar[str] = "2 shards"
    shards: ClassVar[int] = 2


class FourShards(Foldlog):
    """A namespace of four streams."""

    name: ClassVar[str] = "4 shards"
    shards: ClassVar[int] = 4


class EightShards(Foldlog):
    """A namespace of eight streams."""

    name: ClassVar[str] = "8 shards"
    shards: ClassVar[int] = 8


CONTENDERS: tuple[type[Saves], ...] = (Foldlog, TwoShards, FourShards, EightShards)


async def run(bench: Bench) -> None:
    """Compare one shard, as by default, with several."""
    bench.begin(
        "shards",
        "Durable saves by number of shards",
        "As the saves above, on one embedded server; foldlog itself has one shard.",
    )
    await saves.measure(bench, WRITERS, CONTENDERS)
