"""Where else the events of tasks go: configurations of push notifications."""

from __future__ import annotations

from typing import Any

from a2a.server.context import ServerCallContext
from a2a.server.tasks import PushNotificationConfigStore
from a2a.types import a2a_pb2 as pb

from foldlog.errors import shown
from foldlog.integrations.a2a.log import OnLog, json_of, parse
from foldlog_projections.a2a.a2atasks import AgentTask, Pushed


class FoldlogPushNotificationConfigStore(OnLog, PushNotificationConfigStore):
    """Where tasks' events are pushed (`a2a.server.tasks.PushNotificationConfigStore`).

    The log holds them with their task: they go when it is deleted or erased.
    """

    async def set_info(
        self,
        task_id: str,
        notification_config: pb.TaskPushNotificationConfig,
        context: ServerCallContext,
    ) -> pb.TaskPushNotificationConfig:
        """Save a configuration, and return it with its ids; the task's id where it has none.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused. Nothing was saved.
            AppendConflict, AppendFailed, LogUnavailable, LogCorrupt: nothing was saved.
            AppendUnknown: it may have been saved; saving again is safe.
        """
        config = pb.TaskPushNotificationConfig()
        config.CopyFrom(notification_config)
        config.task_id, config.id = task_id, config.id or task_id
        pushed = Pushed(self._owner_of(context), config.id, json_of(config))
        await self._store.decide(self._key(task_id), lambda task: [pushed], copy=False)
        return config

    async def get_info(
        self, task_id: str, context: ServerCallContext
    ) -> list[pb.TaskPushNotificationConfig]:
        """Return the owner's configurations of a task.

        Raises:
            LogUnavailable, LogCorrupt: the log did not answer, or cannot be read.
        """
        return await self._configs(task_id, self._owner_of(context))

    async def get_info_for_dispatch(self, task_id: str) -> list[pb.TaskPushNotificationConfig]:
        """Return every owner's configurations of a task.

        Raises:
            LogUnavailable, LogCorrupt: the log did not answer, or cannot be read.
        """
        return await self._configs(task_id, None)

    async def delete_info(
        self, task_id: str, context: ServerCallContext, config_id: str | None = None
    ) -> None:
        """Delete the owner's configuration of that id, or all. A missing one is left alone.

        Raises:
            AppendConflict, AppendFailed, LogUnavailable, LogCorrupt: nothing was deleted.
            AppendUnknown: it may have been deleted; deleting again is safe.
        """
        owner = self._owner_of(context)

        def decide(task: AgentTask) -> list[Pushed]:
            found = task.configs.get(owner, {})
            return [Pushed(owner, id) for id in found if config_id in (None, id)]

        await self._store.decide(self._key(task_id), decide, copy=False)

    async def _configs(self, task_id: str, owner: str | None) -> list[Any]:
        found = await self._store.view(
            self._key(task_id), lambda task: task.configs_of(owner), consistency="strong"
        )
        what = f"a push configuration of task {shown(task_id)}"
        return [parse(each, pb.TaskPushNotificationConfig(), what) for each in found]
