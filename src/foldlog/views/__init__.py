"""Views: hydrate, follow, catch up, evict."""

from foldlog.views.views import Consistency, Views

__all__ = ["Consistency", "Views"]
