"""Views: hydrate, follow, catch up, snapshot, evict."""

from foldlog.views.hydration import Choose
from foldlog.views.refold import Refolded, refold
from foldlog.views.views import DEFAULT_MAX_HOT_BYTES, Consistency, Views

__all__ = ["DEFAULT_MAX_HOT_BYTES", "Choose", "Consistency", "Refolded", "Views", "refold"]
