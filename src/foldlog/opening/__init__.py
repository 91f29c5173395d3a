"""How a program opens a store: on a server, on the embedded one, in memory, or in the past."""

from foldlog.opening.connecting import Connecting, connect, memory_store
from foldlog.opening.store import Past, Store

__all__ = ["Connecting", "Past", "Store", "connect", "memory_store"]
