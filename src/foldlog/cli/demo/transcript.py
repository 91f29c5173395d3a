"""The conversations that the demo is given, and what they are to become. Read once, to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from foldlog.cli.demo.proof import fingerprint
from foldlog.errors import ImportFailed
from foldlog.importer import Conversation, ImportPlan, plan, read_conversations

_WATCHED: Final = 6
"""How many conversations are watched live: enough to see, few enough to read."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """A file's whole conversations, and the plan of each."""

    path: Path
    conversations: Sequence[Conversation]
    plans: Sequence[ImportPlan]

    @property
    def messages(self) -> list[Mapping[str, Any]]:
        """Every message, in the order of the file."""
        return [m for conversation in self.conversations for m in conversation.messages]

    @property
    def records(self) -> int:
        """How many records they become: those of `_at_once`, the messages, a task's two states."""
        return sum(len(plan.objects["messages"]) + _at_once(plan) + 2 for plan in self.plans)

    @property
    def least_at_once(self) -> int:
        """The least number of saves that are under way at once in a conversation."""
        return min(map(_at_once, self.plans))

    @property
    def fingerprint(self) -> str:
        """The fingerprint of `messages`."""
        return fingerprint(self.messages)

    @property
    def watched(self) -> Sequence[ImportPlan]:
        """The conversations around the middle, where the kill falls."""
        begin = max((len(self.plans) - _WATCHED) // 2, 0)
        return self.plans[begin : begin + _WATCHED]


def _at_once(plan: ImportPlan) -> int:
    """How many saves the importer has under way at once after the messages."""
    return len(plan.objects["steering"]) + len(plan.objects["updates"]) + 1


def read_transcript(path: Path, *, prefix: str) -> Transcript:
    """Read a file; broken items are left out, as the import leaves them out.

    Raises:
        ImportFailed: it holds no whole conversation.
    """
    items = read_conversations(path)
    # Of two with one name the import takes the first.
    named: dict[str, Conversation] = {}
    for item in items:
        if isinstance(item, Conversation):
            named.setdefault(item.name, item)
    if not named:
        raise ImportFailed(f"{path}: holds no whole conversation")
    conversations = list(named.values())
    return Transcript(path, conversations, [plan(each, prefix=prefix) for each in conversations])
