"""Events of tasks, pushed by the log."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from a2a.server import cluster
from a2a.types import a2a_pb2 as pb

from foldlog.errors import shown
from foldlog.integrations.a2a.log import OnLog, number_of, parse
from foldlog_projections.a2a.a2atasks import SAVED


class FoldlogTaskEventStream(OnLog, cluster.TaskEventStream):
    """The events that a `FoldlogVersionedTaskStore` of the same name saves, pushed by the log.

    The contract is `a2a.server.cluster.TaskEventStream`.
    """

    async def publish(self, task_id: str, event: cluster.VersionedEvent) -> None:
        """Do nothing: saving the task has published it."""

    async def subscribe(
        self, task_id: str, *, after: cluster.TaskVersion
    ) -> AsyncGenerator[cluster.VersionedEvent, None]:
        """Yield the events of a task behind a version, then each new one, without end.

        It waits out an outage of the log.

        Raises:
            TypeError: `after` is another store's.
            LogCorrupt, StoreClosed: the log cannot be read, or is closed.
        """
        seen, key = number_of(after), self._key(task_id)
        last = await self._store.view(key, lambda task: task.id if task.version == seen else None)
        async with aclosing(self._store.watch(key, after=last)) as items:
            async for _, type_, record, *_ in items:
                if type_ == SAVED and record.event and record.version > seen:
                    what = f"an event of task {shown(task_id)}"
                    response = parse(record.event, pb.StreamResponse(), what)
                    event = getattr(response, response.WhichOneof("payload"))
                    yield cluster.VersionedEvent(event, cluster.TaskVersion(record.version))

    async def destroy(self, task_id: str) -> None:
        """Do nothing: a task that has ended holds nothing for its subscribers."""
