"""Which views are hot, what they cost, and which of them is to go first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from foldlog.subjects import Subject
from foldlog.views.view import View


class Hot:
    """The hot views by subject. Every method takes a time that does not depend on their number.

    A view is *idle* if it was hydrated and nobody watches it: then it may go. What is watched
    cannot go, and so is not counted in `bytes`.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._views: dict[Subject, View[Any]] = {}
        self._idle: OrderedDict[Subject, View[Any]] = OrderedDict()
        self._watched: set[Subject] = set()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._views)

    def __iter__(self) -> Iterator[View[Any]]:
        """The views as they are now: some may be added or removed meanwhile."""
        return iter(list(self._views.values()))

    def get(self, subject: Subject) -> View[Any] | None:
        """The view of a subject, if it is hot."""
        return self._views.get(subject)

    def add(self, view: View[Any]) -> None:
        """Take a view in."""
        self._views[view.subject] = view

    def account(self, view: View[Any], growth: int) -> None:
        """Note by how many bytes a view's memory has changed."""
        if view.subject not in self._watched:
            self.bytes += growth

    def touch(self, view: View[Any]) -> None:
        """Note that an idle view is used just now."""
        if view.subject in self._idle:
            self._idle.move_to_end(view.subject)

    def settle(self, view: View[Any]) -> None:
        """Note whether a view is idle, after what decides that has changed."""
        if self._views.get(view.subject) is not view:
            return
        if view.watchers and view.subject not in self._watched:
            self._watched.add(view.subject)
            self.bytes -= view.bytes
        elif not view.watchers and view.subject in self._watched:
            self._watched.remove(view.subject)
            self.bytes += view.bytes
        if view.is_hydrated and not view.watchers:
            self._idle[view.subject] = view
        else:
            self._idle.pop(view.subject, None)

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
            self._idle.move_to_end(view.subject)
            view = next(iter(self._idle.values()))
        return None if view is keep else view

    def remove(self, view: View[Any]) -> bool:
        """Let go of a view. Return whether it was there."""
        if self._views.get(view.subject) is not view:
            return False
        del self._views[view.subject]
        self._idle.pop(view.subject, None)
        if view.subject in self._watched:
            self._watched.remove(view.subject)
        else:
            self.bytes -= view.bytes
        view.detach()
        return True
