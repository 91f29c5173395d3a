"""Tasks with their families and one group, and the machine that moves them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    invariant,
    rule,
)

from foldlog.sessions import (
    Session,
)
from tests.sessions.machines.acted import Acted, Op, Refused, actors, ids
from tests.sessions.support import statuses, told

FINAL = {"COMPLETE", "FAILED", "CANCELLED"}


class Tasks:
    """Tasks as they are drawn, with their families and one group."""

    ways: Mapping[str, tuple[set[str], str]] = {
        "start": ({"PENDING"}, "RUNNING"),
        "complete": ({"RUNNING"}, "COMPLETE"),
        "fail": ({"PENDING", "RUNNING", "PAUSED"}, "FAILED"),
        "pause": ({"RUNNING"}, "PAUSED"),
        "resume": ({"PAUSED"}, "RUNNING"),
    }

    def __init__(self) -> None:
        self.status: dict[str, str] = {}
        self.parent: dict[str, tuple[str, bool]] = {}
        self.grouped: set[str] = set()
        self.sealed = False
        self.moves = 0

    def do(self, what: str, id: str = "", *more: Any) -> None:
        if what == "seal":
            self.sealed = True
        elif what == "spawn":
            self.spawn(id, *more)
        elif id not in self.status:
            raise Refused("NotFound")
        elif what == "cancel":
            self.cancel(id)
        else:
            before, after = self.ways[what]
            if self.status[id] not in before:
                raise Refused("IllegalTransition")
            self.move(id, after)

    def spawn(self, id: str, parent: str, isolated: bool, grouped: bool) -> None:
        if id in self.status:
            return
        if not isolated and self.status.get(parent) == "CANCELLED":
            raise Refused("IllegalTransition")
        if grouped and self.sealed:
            raise Refused("GroupSealed")
        self.parent[id] = parent, isolated
        if grouped:
            self.grouped.add(id)
        self.move(id, "PENDING")

    def cancel(self, id: str) -> None:
        if self.status[id] in FINAL:
            raise Refused("IllegalTransition")
        reached, ahead = {id}, [id]
        while ahead:
            above = ahead.pop()
            for child, (parent, isolated) in self.parent.items():
                if parent == above and not isolated and child not in reached:
                    reached.add(child)
                    ahead.append(child)
        for each in reached:
            if self.status[each] not in FINAL:
                self.move(each, "CANCELLED")

    def move(self, id: str, status: str) -> None:
        self.status[id] = status
        self.moves += 1

    @property
    def group(self) -> str:
        stand = {self.status[id] for id in self.grouped}
        if not self.sealed:
            return "open"
        if stand - FINAL:
            return "sealed"
        return "failed" if stand - {"COMPLETE"} else "complete"


OPS = st.one_of(
    st.tuples(st.just("spawn"), ids, ids, st.booleans(), st.booleans()),
    st.tuples(st.sampled_from([*Tasks.ways, "start", "start", "cancel"]), ids),
    st.just(("seal",)),
)


class TaskMachine(Acted):
    """Tasks, from spawning to their end."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Tasks()

    def prepare(self) -> None:
        self.run(self.sessions[0].create_group("g", group_id="g"))

    @rule(actor=actors, op=OPS)
    def alone(self, actor: int, op: Op) -> None:
        self.together([(actor, op)])

    @rule(ops=st.lists(st.tuples(actors, OPS), min_size=2, max_size=3))
    def at_once(self, ops: list[tuple[int, Op]]) -> None:
        self.together(ops)

    async def does(self, session: Session, op: Op) -> None:
        match op:
            case ("seal",):
                await session.seal_group("g")
            case ("spawn", id, parent, isolated, grouped):
                await session.spawn_task(
                    task_id=id,
                    parent_task_id=parent,
                    propagate_on_cancel="isolate" if isolated else "cascade",
                    group_id="g" if grouped else None,
                )
            case ("fail", id):
                await session.fail_task(id, "broken")
            case (what, id):
                await getattr(session, f"{what}_task")(id)

    def is_as(self, model: Tasks) -> bool:
        # Two orders may leave the tasks alike, and the group not.
        state = self.run(self.sessions[0].refresh())
        if "g" in state.groups:
            group = state.group("g")
            if (group.status, {*group.task_ids}) != (model.group, model.grouped):
                return False
        return self.run(statuses(self.stores[0])) == model.status

    @invariant()
    def every_actor_sees_the_same(self) -> None:
        if not hasattr(self, "sessions"):
            return
        for session in self.sessions:
            state = self.run(session.refresh())
            assert {t.task_id: t.status.value for t in state.tasks} == self.model.status
            if "g" in state.groups:
                assert state.group("g").status == self.model.group

    @invariant()
    def every_move_is_told_once(self) -> None:
        if hasattr(self, "stores"):
            assert len(self.run(told(self.stores[1], "STATUS_CHANGE"))) == self.model.moves
            ends = self.run(told(self.stores[1], "NOTIFICATION", task_id="g"))
            assert len(ends) == (self.model.group in ("complete", "failed"))
