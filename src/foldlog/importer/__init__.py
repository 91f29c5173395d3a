"""Real agent conversations, from JSON or JSONL files into a store."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from foldlog.importer.conversation import BrokenLine, Conversation
from foldlog.importer.importing import import_conversations
from foldlog.importer.planning import ImportPlan, plan
from foldlog.importer.reading import read_conversations
from foldlog.importer.report import ImportProgress, ImportReport

__all__ = [
    "BrokenLine",
    "Conversation",
    "ImportPlan",
    "ImportProgress",
    "ImportReport",
    "demo_transcript",
    "import_conversations",
    "plan",
    "read_conversations",
]


def demo_transcript() -> Path:
    """Return the path of the small transcript that comes with foldlog: six conversations, JSONL."""
    return Path(str(resources.files(__name__) / "demo.jsonl"))
