"""The calls of a store without `await`, from any thread: for code without an event loop.

    with foldlog.blocking.connect() as store:
        store.save_update(update)
        updates = store.list_updates("trip")

Every method of `foldlog.Store`, with the same arguments, results and errors.
"""

from foldlog.blocking.store import Blocking, BlockingStore, connect

__all__ = ["Blocking", "BlockingStore", "connect"]
