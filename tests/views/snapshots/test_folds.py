"""Whatever becomes of its snapshots, a view is the fold of its log."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from foldlog.envelope import Recorded, Writer, draft
from foldlog.log.port import Append
from foldlog.views import Views, refold, snapshot
from foldlog_projections.items import PAGE
from foldlog_projections.registry import KINDS
from tests.support.beside import MemorySnapshots
from tests.support.tombstones import tombstone
from tests.views.snapshots.conftest import small_sizes
from tests.views.support import Log, dropped

KEPT = [projection for projection in KINDS if not projection.latest_only]


PAYLOADS: dict[str, Any] = {
    "a2alist": lambda n: {"task_id": f"t{n % 5}", "context_id": "c", "state": f"s{n}", "at": n},
    "a2atasks": lambda n: {
        "version": n,
        "owner": "o",
        "context_id": "c",
        "state": "s",
        "change": [0, {"n": n}],
    },
    "adkstates": lambda n: {"delta": {f"k{n % 3}": n}},
    "conversations": lambda n: {
        "revision": f"r{n}",
        "expected": f"r{n - 1 - (n % 7 == 0)}" if n else None,  # some are void
        "head": f"e{n}",
        "record": {"n": n},
        "carried": {},
        "entries": [[f"e{n}", None]],
        "messages": [n],
    },
    "langgraphitems": lambda n: {"key": f"k{n % 7}", "value": n, "ttl": float(n % 3)},
    "langgraphnamespaces": lambda n: {"labels": ["a", f"n{n % 5}"], "expires": n % 2 == 0},
    "messages": lambda n: {"id": f"m{n % 9}", "format": "plain", "body": n},
    "lineage": lambda n: {"session_id": f"s{n % 5}", "position": f"@{n}"},
    "bindings": lambda n: {"context_id": None if n % 2 else "c", "task_id": f"t{n % 5}"},
    "queues": lambda n: {
        "session_id": "s",
        "run": f"r{n % 5}",
        "function": "f",
        "queue": "q",
        "process": "",
        "slots": n % 3,
        "functions": ["f"],
    },
    "schedules": lambda n: {
        "name": f"n{n % 3}",
        "cron": "* * * * *",
        "zone": "UTC",
        "function": "f",
        "arguments": {},
        "session_id": "",
        "queue": "q",
        "next": float(n),
    },
    "routes": lambda n: {"trace_id": f"x{n % 5}", "context_id": None, "task_id": "t"},
    "streams": lambda n: {
        "id": "s",
        "content_type": "text/plain",
        "offset": f"{n:016d}_{n:016x}",
        "text": f"{n}",
        "producer": f"p{n % 3}",
        "epoch": n // 50,
        "number": n % 50,
        "path": f"f{n % 5}",
    },
    "tasks": lambda n: {"task_id": f"t{n % 7}", "n": n},
    "traces": lambda n: {"trace_id": f"t{n % 7}", "content": f"{n}"},
    "artifacts": lambda n: {"artifact_id": f"a{n % 9}", "sha256": "", "size_bytes": n, "source": n},
    "pauses": lambda n: n,
    "workflowcheckpoints": lambda n: {
        "id": f"c{n % 7}",
        "workflow": "w",
        "timestamp": "",
        "body": n,
    },
    "checkpoints": lambda n: {
        "key": f"id{n}",
        "id": f"c{n % 7}",
        "rest": [None, b"\x80"],
        "metadata": [None, b"\x80"],
        "parent": f"c{(n - 1) % 7}",
        "base": "" if n % 5 else f"c{(n - 1) % 7}",
        "versions": {"a": n},
        "seen": {"node": {"a": n}},
        "values": {"a": ["msgpack", b"", [b"x" * (n % 9)], None]},
        "task": "t",
        "writes": [[n % 3 - 1, "a", "msgpack", b"w"]],
    },
    "runs": lambda n: {"step": f"s{n % 7}", "error": f"{n}", "seconds": 0.0},
    "session": lambda n: {"event_id": f"e{n % 9}", "worker": f"w{n}"},
    "agentlist": lambda n: {"scope": f"a/{n % 5}"},
    "agentstates": lambda n: {"changes": [{"key": f"k{n % 3}", "delta": [0, {"n": n}]}]},
    "waiting": lambda n: {"id": f"task/s/t/{n}", "ids": [f"task/s/t/{n - 2}"]},
    "belongings": lambda n: {"kind": "pauses", "keys": [f"k{n % 5}"]},
    "blobs": lambda n: {"claim": ["f", ["k"], f"{n % 5}"], "copy": f"{n}", "size": n},
    "statelist": lambda n: {"state_id": f"s{n % 5}", "status": f"{n}"},
    "states": lambda n: {"delta": [0, {f"k{n % 3}": n}]},
}
TYPES = {
    "lineage": ["session.began", "session.forked", "fork.ended", "session.cleared"],
    "bindings": ["binding.saved", "binding.terminal"],
    "artifacts": ["artifact.saved"],
    "pauses": ["pause.saved", "pause.consumed"],
    "blobs": ["blob.begun", "blob.claimed", "blob.released"],
    "checkpoints": ["checkpoint.put", "checkpoint.written"],
    "runs": ["run.step_unrecorded", "run.rewound"],
    "queues": ["queue.added", "queue.offered", "queue.left"],
    "schedules": ["schedule.made", "schedule.begun", "schedule.removed"],
    "session": ["steering.acknowledged"],
    "waiting": ["waiting.began", "waiting.ended"],
}


@given(st.data())
def test_whatever_is_kept_a_view_is_the_fold_of_its_log(data: st.DataObject) -> None:
    projection = data.draw(st.sampled_from(KEPT))
    steps = data.draw(
        st.lists(
            st.one_of(
                st.tuples(st.just("save"), st.integers(1, 2 * PAGE)),
                st.tuples(st.just("save"), st.integers(1, 3)),
                st.tuples(st.just("repeat"), st.integers(1, 20)),
                st.tuples(st.just("hold"), st.integers(1, 9)),
                st.tuples(st.just("arrive"), st.just(0)),
                st.tuples(st.sampled_from(["restart", "read", "lose"]), st.just(0)),
                st.tuples(st.sampled_from(["clear", "forget"]), st.just(0)),
            ),
            max_size=14,
        )
    )
    if (begun := data.draw(st.integers(0, 4 * PAGE))) >= PAGE:
        steps = [("save", begun), ("read", 0), ("restart", 0), *steps]
    packed = data.draw(st.sampled_from([1, 7, PAGE, 1000]))

    async def run() -> None:
        log, store, number = Log(), MemorySnapshots(), 0
        writer, held = Writer(), list[Append]()
        where = log.namespace.subject(projection.name, "k")
        payload = PAYLOADS.get(projection.name, lambda n: {"task_id": f"t{n % 3}"})
        types = TYPES.get(projection.name, list(projection.records)[:1])
        views = Views(log, store)

        def drafted(numbers: range) -> list[Append]:
            drafts = [
                draft(
                    types[n % 11 == 0 and len(types) > 1],
                    msgspec.msgpack.encode(payload(n)),
                    id=f"{n}\n" if n % 50 == 0 else f"id{n}",
                )
                for n in numbers
            ]
            stamped = writer.stamped(drafts, log.known(where.shard), None)
            return [
                Append(where, stamped[start : start + packed])
                for start in range(0, len(stamped), packed)
            ]

        for step, count in [*steps, ("restart", 0)]:
            match step:
                case "save":
                    for append in drafted(range(number, number + count)):
                        await log.append([append])
                    number += count
                case "hold":
                    held += drafted(range(number, number + count))
                    number += count
                case "arrive":
                    for append in held:
                        await log.append([append])
                    held.clear()
                case "repeat":
                    for append in drafted(range(max(number - 3 * PAGE, 0), number, 37)):
                        await log.append([append])
                case "restart":
                    await views.close()
                    views = Views(log, store)
                case "lose":
                    log.push = dropped
                case "clear" | "forget":
                    folded, head = await views.read_at(projection, where)
                    left = projection.remains[0](folded.state) if projection.remains else b""
                    removed = {writer.id: number} if step == "clear" else {}
                    cleared = tombstone(left, id=f"c{head}", removed=removed)
                    await log.append([Append(where, (cleared,), head)], atomic=True)
                    await log.purge(where, before=head + 1)
            if step in ("restart", "read"):
                folded = await views.read(projection, where, "strong")
                truth = await refold(log, projection, where)
                assert folded.state == truth.state
                assert folded.seen == truth.seen
                assert folded.newest == truth.newest
                assert folded.barred == truth.barred
                assert folded.digests == truth.digests
        await views.close()

    with pytest.MonkeyPatch.context() as monkeypatch:
        small_sizes(monkeypatch)
        asyncio.run(run())


def test_a_projection_without_a_way_to_keep_its_state_has_no_snapshots() -> None:
    class Count:
        name, version, latest_only, replaces = "count", 1, False, None
        keep = restore = None
        early_snapshots = False

        def initial(self) -> int:
            return 0

        def apply(self, state: int, envelope: Recorded, /) -> int:
            return state + 1

    assert not snapshot.is_keepable(Count())
    assert all(snapshot.is_keepable(projection) for projection in KEPT)
