"""foldlog for code without an event loop: the same calls, without `await`, from any thread."""

from foldlog.blocking.recovery import SyncArtifactBackend, SyncStateBackend
from foldlog.blocking.store import Blocking, BlockingStore, connect

__all__ = ["Blocking", "BlockingStore", "SyncArtifactBackend", "SyncStateBackend", "connect"]
