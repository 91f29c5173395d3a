"""Views: hydrate, follow, catch up, snapshot, evict."""

from foldlog.views.fold import refold
from foldlog.views.hydration import Choose
from foldlog.views.views import DEFAULT_MAX_HOT_BYTES, Consistency, Views

__all__ = ["DEFAULT_MAX_HOT_BYTES", "Choose", "Consistency", "Views", "refold"]
