"""A2A servers of the A2A SDK (a2a-sdk) on foldlog: their tasks, events and push configurations.

    async with foldlog.connect(path="./data") as store:
        handler = DefaultRequestHandler(
            agent_executor=agent,
            agent_card=card,
            task_store=FoldlogVersionedTaskStore(store),
            event_stream=FoldlogTaskEventStream(store),
            push_config_store=FoldlogPushNotificationConfigStore(store),
        )

A task belongs to the session that its context id names.
"""

from foldlog.integrations.required import not_installed as _not_installed

try:
    import a2a.types as _types  # noqa: F401
except ModuleNotFoundError as _error:
    raise _not_installed("a2a", _error) from _error

from foldlog.integrations.a2a.events import FoldlogTaskEventStream
from foldlog.integrations.a2a.pushing import FoldlogPushNotificationConfigStore
from foldlog.integrations.a2a.tasks import FoldlogTaskStore, FoldlogVersionedTaskStore

__all__ = [
    "FoldlogPushNotificationConfigStore",
    "FoldlogTaskEventStream",
    "FoldlogTaskStore",
    "FoldlogVersionedTaskStore",
]
