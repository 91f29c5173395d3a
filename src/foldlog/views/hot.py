"""Which views are hot, what they cost, and which of them is to go first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from foldlog.views.view import Key, View


class Hot:
    """The hot views by `View.key`. Every method takes a time that does not depend on their number.

    A view is *idle* if it was hydrated and nobody watches it: then it may go. What is watched
    cannot go, and so is not counted in `bytes`.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._views: dict[Key, View[Any]] = {}
        self._idle: OrderedDict[Key, View[Any]] = OrderedDict()
        self._watched: set[Key] = set()
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

    def account(self, view: View[Any], growth: int) -> None:
        """Note by how many bytes a view's memory has changed."""
        if view.key not in self._watched:
            self.bytes += growth

    def touch(self, view: View[Any]) -> None:
        """Note that an idle view is used just now."""
        if view.key in self._idle:
            self._idle.move_to_end(view.key)

    def settle(self, view: View[Any]) -> None:
        """Note whether a view is idle, after what decides that has changed."""
        if self._views.get(view.key) is not view:
            return
        if view.watchers and view.key not in self._watched:
            self._watched.add(view.key)
            self.bytes -= view.bytes
        elif not view.watchers and view.key in self._watched:
            self._watched.remove(view.key)
            self.bytes += view.bytes
        if view.is_hydrated and not view.watchers:
            self._idle[view.key] = view
        else:
            self._idle.pop(view.key, None)

    @property
    def is_full(self) -> bool:
        """Whether the views are too large, all together."""
        return self.bytes > self._max_bytes

    def surplus(self, keep: View[Any] | None) -> View[Any] | None:
        """The idle view that was used least recently, while all together are too large.

        `keep` stays, whatever its size: somebody is reading it.
        """
        if not self.is_full:
            return None
        view = next(iter(self._idle.values()), None)
        if view is not None and view is keep:
            self._idle.move_to_end(view.key)
            view = next(iter(self._idle.values()))
        return None if view is keep else view

    def remove(self, view: View[Any]) -> bool:
        """Let go of a view. Return whether it was there."""
        if self._views.get(view.key) is not view:
            return False
        del self._views[view.key]
        self._idle.pop(view.key, None)
        if view.key in self._watched:
            self._watched.remove(view.key)
        else:
            self.bytes -= view.bytes
        view.detach()
        return True
