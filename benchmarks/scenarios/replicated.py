"""Durable saves on a cluster of three servers on this machine, every record kept three times."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.contenders.contender import Saves
from benchmarks.contenders.foldlog_store import Replicated
from benchmarks.contenders.jetstream import ReplicatedBatches, ReplicatedPublish
from benchmarks.measuring import Measure, Ref
from benchmarks.scenarios import saves

CONTENDERS: tuple[type[Saves], ...] = (Replicated, ReplicatedPublish, ReplicatedBatches)
WRITERS = (1, 64, 512)


async def run(bench: Bench) -> None:
    """Compare foldlog with what the cluster takes directly."""
    bench.begin(
        "replicated",
        "Durable saves with three replicas",
        "As the saves above, on three nats-servers that share this machine's cores and disk. Here "
        "too JetStream batch is the ceiling of unpacked records.",
        ours=Replicated.name,
    )
    await saves.measure(bench, WRITERS, CONTENDERS)
    bench.expect(
        "saves, 512 writers, three replicas, over the cluster's raw atomic-batch ceiling",
        Ref(saves.case(512), Replicated.name, Measure.RATE),
        Ref(saves.case(512), ReplicatedBatches.name, Measure.RATE),
        at_least=0.8,
    )
