"""Interrupts of graphs, on the list of what waits for a person.

What the tasks of a thread's latest checkpoint ask waits until they write on, or another checkpoint
follows. A subgraph's interrupt is also its root task's: only the root namespace is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from foldlog.integrations.waiting import begin_waiting, token_beside
from foldlog.opening import Store
from foldlog_projections.langgraph import checkpoints
from foldlog_projections.langgraph.checkpointrecords import Write, typed
from foldlog_projections.langgraph.thread import Thread

_INTERRUPT: Final = "__interrupt__"
_RESUME: Final = "__resume__"
_NO_TASK: Final = "00000000-0000-0000-0000-000000000000"
"""The task of what is written for a whole checkpoint: an answer to its only interrupt."""

ANSWER_IN: Final = "your program: invoke the graph on this thread with Command(resume=...)"


class Asking(NamedTuple):
    """A task that waits for an answer, after a checkpoint of the root namespace."""

    thread_id: str
    checkpoint_id: str
    task_id: str

    def token(self, store: Store) -> str:
        """The token under which it is listed."""
        return token_beside(store, checkpoints.kind(self.thread_id), "/".join(("langgraph", *self)))


class Change(NamedTuple):
    """What a record changes of the list: tasks that wait no more; one that waits, and for what."""

    over: Sequence[Asking] = ()
    asks: Asking | None = None
    asked: Any = None

    def __bool__(self) -> bool:
        return bool(self.over or self.asks)

    async def save(self, store: Store) -> None:
        """Save it, in the block of the record. Errors as a pause's."""
        for each in self.over:
            await store.load_planner_state(each.token(store))
        if self.asks is not None:
            payload = {
                "question": self.asked,
                "asked": _calls(self.asked),
                **self.asks._asdict(),
            }
            await begin_waiting(
                store,
                self.asks.token(store),
                "interrupt",
                payload,
                session_id=self.asks.thread_id,
                answer_in=ANSWER_IN,
            )


def asking(
    thread: Thread, thread_id: str, is_it: Callable[[str], bool] = lambda _: True
) -> list[Asking]:
    """The tasks that have asked after the latest checkpoint, if that is one of those meant."""
    latest = thread.checkpoint("", None)
    if latest is None or not is_it(latest.id):
        return []
    return asking_at(thread, thread_id, latest.id)


def asking_at(thread: Thread, thread_id: str, checkpoint_id: str) -> list[Asking]:
    """The tasks that have asked after a checkpoint."""
    return [
        Asking(thread_id, checkpoint_id, each.task)
        for each in thread.written("", checkpoint_id)
        if each.write.channel == _INTERRUPT
    ]


def change_by(asked: Iterable[Asking], task: Asking, writes: Iterable[Write]) -> Change:
    """What a task's writes change, where those have asked."""
    by_channel = {each.channel: each for each in writes}
    if _INTERRUPT in by_channel:
        asks = by_channel[_INTERRUPT]
        return Change((), task, typed(asks.form, asks.data))
    is_answer = task.task_id == _NO_TASK and _RESUME in by_channel
    return Change([each for each in asked if is_answer or each.task_id == task.task_id])


def _calls(asked: Any) -> list[dict[str, Any]]:
    """The calls that LangChain's middleware for approvals asks about, as others' are listed."""
    values = [each.get("value") for each in asked if isinstance(each, dict)]
    return [
        {"tool": call.get("name"), "arguments": call.get("args")}
        for value in values
        if isinstance(value, dict)
        for call in value.get("action_requests") or ()
    ]
