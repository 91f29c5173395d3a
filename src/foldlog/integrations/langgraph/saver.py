"""LangGraph's checkpoints on foldlog."""

from __future__ import annotations

import copy
import random
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Self, TypeVar

from foldlog.errors import ConfigurationError
from foldlog.integrations.access import Access, AnyStore, OnStore, access_to, blocking, iterating
from foldlog.integrations.langgraph.fencing import Holding
from foldlog.integrations.langgraph.following import Derived, Following
from foldlog.integrations.langgraph.forms import Forms, Place
from foldlog.integrations.langgraph.installed import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_metadata,
)
from foldlog.integrations.langgraph.threads import Threads
from foldlog.opening import Store
from foldlog.store.forks import When
from foldlog_projections.langgraph.namespaces import Row

T = TypeVar("T")

_STRATEGIES = ("keep_latest", "delete")


class FoldlogSaver(OnStore, BaseCheckpointSaver[str]):
    """A checkpointer whose threads are sessions of a store.

        async with FoldlogSaver.from_conn_string("nats://localhost:4222") as saver:
            graph = builder.compile(checkpointer=saver)
            await graph.ainvoke(question, {"configurable": {"thread_id": "trip"}})

    Its methods are those of every checkpointer, async (`aput`) and sync (`put`), and `hold`,
    `watch`, `at` and `fork`. Every method may raise LogUnavailable and LogCorrupt, and writing ones
    AppendFailed, AppendUnknown and PayloadError; saving also raises CheckpointGone, after the
    thread was deleted, and ThreadHeld, while another run holds it.

    Sync methods run where the store is not on the caller's event loop: open the saver with `with`
    where graphs are invoked without `await`. Lives until its store is closed.

    Args:
        store: from `foldlog.connect` or `foldlog.memory_store`, or, for graphs that are invoked
            without `await`, from `foldlog.blocking.connect`. It stays open when the saver goes.
        serde: LangGraph's serialiser of values. None: its default.
    """

    def __init__(self, store: AnyStore, *, serde: Any = None) -> None:
        super().__init__(serde=serde)
        self._access: Access = access_to(store)

    # --- reading --------------------------------------------------------------------------------

    async def aget_tuple(self, config: Mapping[str, Any]) -> Any:
        """Return the checkpoint that a config names, or the latest; None if there is none."""
        place = Place.of(config)
        row = await self._run(lambda threads: threads.get(place))
        return None if row is None else self._tuple(place.thread, row)

    get_tuple: Final = blocking(aget_tuple)

    async def alist(
        self,
        config: Mapping[str, Any] | None,
        *,
        filter: dict[str, Any] | None = None,
        before: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> AsyncGenerator[Any]:
        """Yield checkpoints, the newest first.

        Args:
            config: a thread, and if it names one, a namespace and a checkpoint. None: all threads.
            filter: values that the metadata has.
            before: only checkpoints whose id is below this one's.
            limit: how many at most.
        """
        rows = await self._run(lambda threads: threads.rows(config, filter, before, limit))
        for thread_id, row in rows:
            yield self._tuple(thread_id, row)

    list: Final = iterating(alist)

    async def aget_delta_channel_history(
        self, *, config: Mapping[str, Any], channels: Sequence[str]
    ) -> Mapping[str, Any]:
        """Return what the values of delta channels are built from, at a checkpoint's parent."""
        return await self._run(lambda threads: threads.history(Place.of(config), channels))

    get_delta_channel_history: Final = blocking(aget_delta_channel_history)

    # --- saving ---------------------------------------------------------------------------------

    async def aput(
        self,
        config: Mapping[str, Any],
        checkpoint: Mapping[str, Any],
        metadata: Mapping[str, Any],
        new_versions: Mapping[str, Any],
    ) -> Any:
        """Save a checkpoint, in one append; return the config that names it."""
        about = get_checkpoint_metadata(config, metadata)
        after = Place.of(config)
        put = await self._run(lambda t: t.put(after, checkpoint, about, new_versions))
        return put.config

    put: Final = blocking(aput)

    async def aput_writes(
        self,
        config: Mapping[str, Any],
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save what a task wrote after a checkpoint."""
        place, found = Place.of(config), _indexed(writes)
        await self._run(lambda threads: threads.put_writes(place, found, task_id, task_path))

    put_writes: Final = blocking(aput_writes)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Save all that a thread holds in another one as well. `afork` copies nothing.

        It is appended half a megabyte at a time, and shows all at once. Where this raises, nothing
        shows, unless it is AppendUnknown; what was appended goes when the target is deleted.

        Raises:
            ThreadHeld: another run holds the target.
            CheckpointGone: the target was deleted meanwhile. In both cases nothing shows.
        """
        await self._run(lambda t: t.copy(str(source_thread_id), str(target_thread_id)))

    copy_thread: Final = blocking(acopy_thread)

    # --- removing -------------------------------------------------------------------------------

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread's checkpoints and their history.

        Runs that go on from it get CheckpointGone. The server frees the bytes when it next rewrites
        the files that they are in; after `Store.erase_session` no file holds them, and all else of
        the session is gone, too.

        Raises:
            ThreadHeld: another run holds it. Nothing was deleted.
            SessionHasForks: forks share it. Nothing was deleted.
        """
        await self._run(lambda threads: threads.delete(str(thread_id)))

    delete_thread: Final = blocking(adelete_thread)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of runs, in all threads: those with `run_id` in their metadata."""
        await self._run(lambda threads: threads.delete_runs(run_ids))

    delete_for_runs: Final = blocking(adelete_for_runs)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove the older checkpoints of threads.

        Args:
            strategy: "keep_latest" leaves each namespace its latest checkpoint, and those that the
                values of its delta channels are built from; "delete" leaves nothing.

        Raises:
            ConfigurationError: there is no such strategy.
        """
        await self._run(lambda threads: _prune(threads, thread_ids, strategy))

    prune: Final = blocking(aprune)

    # --- what only a log can do -----------------------------------------------------------------

    def hold(
        self,
        thread_id: str,
        *,
        holder: str = "another run",
        lease: float = 30.0,
        takes_over: bool = False,
    ) -> Holding:
        """Hold a thread while a block runs: what others save to it meanwhile raises ThreadHeld.

            async with saver.hold("trip"):
                await graph.ainvoke(None, config)

        `with saver.hold(...)` does the same for sync graphs.

        Args:
            holder: what their error names.
            lease: seconds after which others may write if this process died. The block renews it.
            takes_over: take the thread from a run that holds it now; what that one saves from
                then on raises ThreadHeld.

        Raises (when entered):
            ThreadHeld: another run holds it.
        """
        return Holding(self._access, str(thread_id), holder, lease, takes_over)

    def watch(
        self, thread_id: str, *, checkpoint_ns: str | None = None, after: str | None = None
    ) -> Following[Row]:
        """Yield a thread's checkpoints as they are saved by any process, those there are first.

        For `async for` and, in sync code, for `for`. Ends with StoreClosed.

        Args:
            checkpoint_ns: of one namespace. None: of all.
            after: the id of a checkpoint to begin behind.
        """
        name = str(thread_id)
        return Following(
            self._access,
            lambda store: self._threads(store).watch(name, checkpoint_ns, after),
            lambda row: self._tuple(name, row),
        )

    def at(self, when: When) -> Self:
        """Return a saver of the threads as they were at a moment, for reading.

        Args:
            when: a position, a datetime with a time zone, or a saved object or its id.
        """
        past = copy.copy(self)
        past._access = Derived(self._access, lambda store: store.at(when))
        return past

    async def afork(
        self, thread_id: str, *, into: str | None = None, at: When | None = None
    ) -> str:
        """Begin a thread with what another one held at a moment, without copying; return its id.

        While it lives, the other one cannot be deleted. Runs of the thread's session are in the
        fork as they were at that moment.

        Args:
            thread_id: the other thread.
            into: the new thread's id, never used before. None: a new one.
            at: the id of a checkpoint that was saved to the other thread, for the moment right
                after it was; or any that `Store.fork` takes. None: now.

        Raises:
            UnknownMoment: there is no such moment, or the thread held nothing then.
            PastErased: the thread was deleted since.
            SessionExists: `into` was used before.
            Misuse: `into` is on another shard; the message names an id that is not.
        """

        async def begin(store: Store) -> str:
            found = await self._threads(store).moment(str(thread_id), at)
            return await store.fork(str(thread_id), at=found, to=into)

        return await self._access.acall(begin)

    fork: Final = blocking(afork)

    def get_next_version(self, current: Any, channel: None) -> str:
        """Return the version after one: a growing number, and a random part."""
        number = 0 if current is None else int(str(current).split(".")[0])
        return f"{number + 1:032}.{random.random():016}"

    # --- private --------------------------------------------------------------------------------

    def _threads(self, store: Store) -> Threads:
        return Threads(store, Forms(self.serde))

    def _tuple(self, thread_id: str, row: Row) -> Any:
        """A checkpoint as LangGraph has it."""
        ns, checkpoint, forms = row.ns, row.checkpoint, Forms(self.serde)
        parent = checkpoint.parent
        return CheckpointTuple(
            Place(thread_id, ns, checkpoint.id).config,
            {
                **forms.untyped(checkpoint.rest),
                "id": checkpoint.id,
                "channel_values": {name: forms.value(each) for name, each in row.values.items()},
                "channel_versions": dict(checkpoint.versions),
                "versions_seen": {node: dict(each) for node, each in checkpoint.seen.items()},
            },
            forms.untyped(checkpoint.metadata),
            None if parent is None else Place(thread_id, ns, parent).config,
            [forms.write(each) for each in row.writes],
        )

    async def _run(self, use: Callable[[Threads], Coroutine[Any, Any, T]]) -> T:
        return await self._access.acall(lambda store: use(self._threads(store)))


def _indexed(writes: Sequence[tuple[str, Any]]) -> list[tuple[int, str, Any]]:
    """What a task wrote, with the place of each: special channels have one of their own."""
    return [(WRITES_IDX_MAP.get(name, n), name, value) for n, (name, value) in enumerate(writes)]


async def _prune(threads: Threads, thread_ids: Sequence[str], strategy: str) -> None:
    if strategy not in _STRATEGIES:
        raise ConfigurationError(
            f"a strategy is one of {', '.join(_STRATEGIES)}, not {strategy!r:.80}"
        )
    prune = threads.delete if strategy == "delete" else threads.prune
    for thread_id in [thread_ids] if isinstance(thread_ids, str) else thread_ids:
        await prune(str(thread_id))
