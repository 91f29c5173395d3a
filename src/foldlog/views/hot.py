"""Which views are hot, what memory they take, and which of them is to go first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from foldlog.views.view import Key, View


class Hot:
    """The hot views by `View.key`. Every method takes a time that does not depend on their number.

    `bytes` is the estimate for the hydrated ones, which may be evicted. The others are being
    loaded, or watched by somebody who does not read just now.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._views: dict[Key, View[Any]] = {}
        self._hydrated: OrderedDict[Key, View[Any]] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._views)

    def __iter__(self) -> Iterator[View[Any]]:
        """The views as they are now: some may be added or removed meanwhile."""
        return iter(list(self._views.values()))

    def get(self, key: Key) -> View[Any] | None:
        """The view of a key, if it is hot."""
        return self._views.get(key)

    def add(self, view: View[Any]) -> None:
        """Take a view in."""
        self._views[view.key] = view

    def touch(self, view: View[Any]) -> None:
        """Note that a hydrated view is used just now."""
        if view.key in self._hydrated:
            self._hydrated.move_to_end(view.key)

    def weigh(self, view: View[Any]) -> None:
        """Count what memory a hydrated view takes now, if it is still here."""
        if view.is_hydrated and self._views.get(view.key) is view:
            self._hydrated.setdefault(view.key, view)
            size = view.estimate()
            self.bytes += size - view.bytes
            view.bytes = size

    @property
    def is_full(self) -> bool:
        """Whether the views take more memory than they may."""
        return self.bytes > self._max_bytes

    def surplus(self, keep: View[Any] | None) -> View[Any] | None:
        """The view that was used least recently, while the views take more than they may.

        `keep` stays, whatever its size: somebody is reading it.
        """
        if not self.is_full:
            return None
        view = next(iter(self._hydrated.values()), None)
        if view is not None and view is keep:
            self._hydrated.move_to_end(view.key)
            view = next(iter(self._hydrated.values()))
        return None if view is keep else view

    def remove(self, view: View[Any]) -> bool:
        """Let go of a view. Return whether it was there."""
        if self._views.get(view.key) is not view:
            return False
        del self._views[view.key]
        if self._hydrated.pop(view.key, None) is not None:
            self.bytes -= view.bytes
        return True
