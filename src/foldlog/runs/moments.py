"""Moments that a session's runs name: right after a step, or right before one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from foldlog.errors import UnknownMoment
from foldlog.log import moments
from foldlog.log.moments import Event
from foldlog.position import LogPosition, Reach
from foldlog.store.core import core_of
from foldlog.store.primitives import Item
from foldlog.store.store import BaseStore
from foldlog.subjects import Subject
from foldlog_projections.runs import runs
from foldlog_projections.runs.runs import Asked, Started

_ALL: Final = 2**31
_FORM: Final = re.compile(r"(?:(before|after) )?step (.+)")
"""`before step 3`, `after step search`, `step search`: a name, or a number from 1."""


class _Named(NamedTuple):
    """A step, and the records of its run with which it began and ended."""

    subject: Subject
    step: str
    began: Item
    ended: Item | None = None


async def step_moment(store: BaseStore, session_id: str, when: str) -> LogPosition | None:
    """Return the moment that a text names by a step of the session's runs; None if it names none.

    A text of the form above does; so does the bare name of a step. Steps of several runs count in
    the order in which they began.

    Raises:
        UnknownMoment: there is no such step, or it has not ended.
    """
    found = _FORM.fullmatch(when)
    is_before, wanted = (found[1] == "before", found[2]) if found else (False, when)
    steps = list[_Named]()
    for task in await store.list_tasks(session_id):
        key = runs.kind(session_id, task.task_id)
        items = await store.items(key, limit=_ALL, consistency="strong")
        subject = core_of(store).subject(runs.kind, session_id, task.task_id)
        steps += _steps(subject, items)
    steps.sort(key=lambda each: each.began.ts)
    chosen = [each for each in steps if each.step == wanted]
    if not chosen and found and wanted.isdigit() and 0 < int(wanted) <= len(steps):
        chosen = [steps[int(wanted) - 1]]
    if not chosen:
        if found is None:
            return None
        known = ", ".join(each.step for each in steps)
        raise UnknownMoment(when, f"the steps of {session_id!r:.80} are: {known or 'none'}")
    step = chosen[-1]
    item = step.began if is_before else step.ended
    if item is None:
        raise UnknownMoment(when, f"step {step.step!r:.80} has not ended")
    return await _at(store, step.subject, item, is_before)


def _steps(subject: Subject, items: Sequence[Item]) -> list[_Named]:
    """The steps of a run, in the order in which they first began."""
    found = dict[str, _Named]()
    for item in items:
        name = getattr(item.record, "step", "")
        if isinstance(item.record, Started | Asked):
            found.setdefault(name, _Named(subject, name, item))
        elif name in found and item.type in (runs.DONE, runs.FAILED, runs.ANSWERED):
            found[name] = found[name]._replace(ended=item)
    return list(found.values())


async def _at(store: BaseStore, subject: Subject, item: Item, is_before: bool) -> LogPosition:
    """The position right after a record of a run, or right before it."""
    event = Event(item.id, subject)
    position = (await moments.resolve(core_of(store).forked_log, event)).position
    if not is_before:
        return position
    shards, reach = list(position.shards), item.position.shards[subject.shard]
    shards[subject.shard] = (
        Reach(reach.seq, reach.index - 1) if reach.index else Reach(reach.seq - 1)
    )
    return LogPosition(tuple(shards))
