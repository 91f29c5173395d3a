"""Views: hydrate, follow, catch up, evict."""

from foldlog.views.refold import Refolded, refold
from foldlog.views.views import Consistency, Views

__all__ = ["Consistency", "Refolded", "Views", "refold"]
