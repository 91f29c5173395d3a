"""The views in memory: found by subject, and let go of by the time of their last use."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final

from foldlog.kind import Kind
from foldlog.subjects import Subject
from foldlog.views.view import View

LARGE_SECONDS: Final = 10.0
"""How long the view that alone is larger than all may be stays after its last use.

Who reads it page by page would load it anew for each, beside the one before.
"""


class Hot:
    """The hot views. Every method takes a time that does not depend on their number.

    `of` has the views of each subject, by whatever projections. `bytes` is the estimate for the
    hydrated ones, which may be evicted. The others are being loaded, or watched by somebody who
    does not read just now.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.of: dict[Subject, tuple[View[Any], ...]] = {}
        self._hydrated: OrderedDict[View[Any], None] = OrderedDict()
        self.bytes: int = 0
        self._large: View[Any] | None = None
        self._large_until = 0.0

    def find(self, projection: Kind[Any], subject: Subject) -> View[Any] | None:
        """The view of a subject by a projection of that name."""
        for view in self.of.get(subject, ()):
            if view.projection.name == projection.name:
                return view
        return None

    def __iter__(self) -> Iterator[View[Any]]:
        return iter([view for views in self.of.values() for view in views])

    def add(self, view: View[Any]) -> None:
        """Take in a view that is not here."""
        self.of[view.subject] = (*self.of.get(view.subject, ()), view)

    def touch(self, view: View[Any]) -> None:
        """Note that a hydrated view is used just now."""
        if view in self._hydrated:
            self._hydrated.move_to_end(view)
        if view.bytes > self._max_bytes:
            self._large, self._large_until = view, time.monotonic() + LARGE_SECONDS

    def weigh(self, view: View[Any]) -> bool:
        """Count what memory a hydrated view takes now, if it is still here. Return `is_full`."""
        if view.looked and view in self.of.get(view.subject, ()):
            self._hydrated.setdefault(view)
            size = view.estimate()
            self.bytes += size - view.bytes
            view.bytes = size
        return self.is_full

    @property
    def is_full(self) -> bool:
        if self.bytes <= self._max_bytes:
            return False
        spared = self._spared()
        return spared is None or self.bytes - spared.bytes > self._max_bytes

    def is_large(self, view: View[Any]) -> bool:
        """Whether a view that is being loaded is so large that another such one has to go."""
        if view.estimate() <= self._max_bytes // 2 or self._large in (None, view):
            return False
        self._large = None
        return True

    def _spared(self) -> View[Any] | None:
        if self._large in self._hydrated and time.monotonic() < self._large_until:
            return self._large
        return None

    def surplus(self, keep: View[Any] | None) -> View[Any] | None:
        """The view that was used least recently, while the views take more than they may.

        `keep` stays, whatever its size: somebody is reading it.
        """
        if not self.is_full:
            return None
        stays = (keep, self._spared())
        return next((each for each in self._hydrated if each not in stays), None)

    def remove(self, view: View[Any]) -> bool:
        """Let go of a view. Return whether it was there."""
        views = self.of.get(view.subject, ())
        if view not in views:
            return False
        if len(views) > 1:
            self.of[view.subject] = tuple(each for each in views if each is not view)
        else:
            del self.of[view.subject]
        if view in self._hydrated:
            del self._hydrated[view]
            self.bytes -= view.bytes
        return True
