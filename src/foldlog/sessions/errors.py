"""What sessions raise beside `foldlog.errors`. All of them are FoldlogErrors.

Where one is raised, nothing was appended.
"""

from __future__ import annotations

from typing import Final

from foldlog.errors import FoldlogError

_ENDED: Final = "it has ended; session.spawn_task() makes another one, under another id"
_NEXT: Final = {
    "PENDING": "call session.start_task({task_id}) first",
    "PAUSED": "call session.resume_task({task_id}) first",
    "RUNNING": "it may report, pause, complete, fail or be cancelled",
    "COMPLETE": _ENDED,
    "FAILED": _ENDED,
    "CANCELLED": _ENDED,
}
"""What to do with a task that cannot do what was asked."""


class IllegalTransition(FoldlogError):
    """A task cannot move to the wanted status. `status` is the one that it has."""

    def __init__(self, task_id: str, status: str, wanted: str) -> None:
        hint = _NEXT.get(str(status), "").format(task_id=repr(task_id)[:80])
        super().__init__(f"task {task_id!r:.80} is {status}: {wanted} is not possible; {hint}")
        self.task_id = task_id
        self.status = status
        self.wanted = wanted


class GroupSealed(FoldlogError):
    """No more tasks may join the group."""

    def __init__(self, group_id: str, status: str) -> None:
        super().__init__(
            f"group {group_id!r:.80} is {status}: no task can join it; session.create_group(...) "
            "makes another one"
        )
        self.group_id = group_id
        self.status = status


class MergeRefused(FoldlogError):
    """A patch cannot be merged with that strategy; another one may work."""

    def __init__(self, key: str, found: object) -> None:
        super().__init__(
            f"llm_context[{key!r}] is a {type(found).__name__}, to which nothing can be "
            "appended: apply the patch with MergeStrategy.REPLACE"
        )
        self.key = key


class MemoryBudgetExceeded(FoldlogError):
    """A memory is larger than its budget, and its policy is "error". Sizes in tokens."""

    def __init__(self, what: str, tokens: int, limit: int) -> None:
        super().__init__(
            f"the {what} takes {tokens} tokens; the budget allows {limit}: allow more in "
            "MemoryBudget, "
            'or choose another overflow_policy than "error"'
        )
        self.what = what
        self.tokens = tokens
        self.limit = limit
