"""A pytest plugin: assistant-stream's store in memory is a FoldlogResumableStreamStore."""

from __future__ import annotations

from typing import Any, Final

from assistant_stream import resumable
from assistant_stream.resumable.stores import in_memory
from standing_in import current_store

from foldlog.integrations.assistant_ui import FoldlogResumableStreamStore

BOUNDS: Final = "bounds of a store that is in memory"
CLOCK: Final = "gives the store in memory a clock: ours has the log's, in seconds"
NOT_OURS: Final = {
    "test_expired_streams_evicted_on_next_access": CLOCK,
    "test_appending_refreshes_ttl": CLOCK,
    "test_gc_sweeper_evicts_expired_streams": CLOCK,
    "test_rejects_append_when_chunk_exceeds_max_chunk_bytes": BOUNDS,
    "test_rejects_append_when_stream_reaches_max_entries": BOUNDS,
    "test_rejects_acquire_when_max_streams_exceeded": BOUNDS,
    "test_delete_ends_in_flight_reads_and_status_missing": "deletes before a reader has had turns",
    "test_dispose_clears_gc_and_is_noop_without_gc": BOUNDS,
}


def create_in_memory_resumable_stream_store(**options: Any) -> FoldlogResumableStreamStore:
    """In place of theirs."""
    return FoldlogResumableStreamStore(current_store(), **options)


def stand_in() -> None:
    for module in (resumable, in_memory):
        module.create_in_memory_resumable_stream_store = create_in_memory_resumable_stream_store
