"""Moments as users name them: positions, times, and events that were saved."""

from __future__ import annotations

import datetime as dt

from foldlog.errors import UnknownMoment
from foldlog.log import moments
from foldlog.log.moments import Event
from foldlog.models import StateUpdate, SteeringEvent, StoredEvent
from foldlog.position import LogPosition
from foldlog.store.events import event_id, trace_of
from foldlog.subjects import Namespace, checked_id
from foldlog_projections import events, steering, updates

When = LogPosition | dt.datetime | str | StateUpdate | SteeringEvent | StoredEvent
"""A moment: that position; all that was stored by that time, which has a time zone; or right after
that event was recorded, named by its id (`update_id`, `event_id`) or as the object that was saved.
By id alone the whole log is looked through.
"""


def named(when: When, namespace: Namespace) -> moments.When:
    """Return what a log is to look for.

    Raises:
        UnknownMoment: it is nothing that names a moment. InvalidId: an id of it is empty.
        PayloadError: an event that cannot have been saved.
    """
    match when:
        case LogPosition() | dt.datetime():
            return when
        case str():
            return Event(checked_id(when, "event id"))
        case StateUpdate():
            return Event(when.update_id, namespace.subject(updates.kind.name, when.session_id))
        case SteeringEvent():
            return Event(when.event_id, namespace.subject(steering.kind.name, when.session_id))
        case StoredEvent():
            subject = namespace.subject(events.kind.name, trace_of(when))
            return Event(event_id(when), subject)
    raise UnknownMoment(repr(when), "name it by a position, a time or an event")
