"""Patches, and the machine that offers, merges, approves and rejects them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    invariant,
    rule,
)

from foldlog.sessions import (
    MergeStrategy,
    Session,
    context_hash,
)
from tests.sessions.machines.acted import Acted, Op, actors, ids
from tests.sessions.support import patch, told


class Patches:
    """What was offered, what waits, and what was decided: once."""

    def __init__(self) -> None:
        self.waiting: list[str] = []
        self.decided: dict[str, str] = {}
        self.results: list[str] = []
        self.version = 0

    def do(self, what: str, id: str = "") -> Any:
        known = id in self.waiting or id in self.decided
        match what:
            case "offer" if not known:
                self.waiting.append(id)
            case "merge" if not known:
                self.apply(id)
            case "approve":
                return id in self.waiting and self.apply(id)
            case "reject":
                if id not in self.waiting:
                    return False
                self.waiting.remove(id)
                self.decided[id] = "rejected"
                return True
            case "change":
                self.version += 1
        return None

    def apply(self, id: str) -> bool:
        if id in self.waiting:
            self.waiting.remove(id)
        self.decided[id] = "applied"
        self.results.append(id)
        self.version += 1
        return True


PATCH_OPS = st.one_of(
    st.tuples(st.sampled_from(["offer", "offer", "merge", "approve", "reject"]), ids),
    st.just(("change",)),
)


class PatchMachine(Acted):
    """Patches, from being offered to what was decided."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Patches()

    @rule(actor=actors, op=PATCH_OPS)
    def alone(self, actor: int, op: Op) -> None:
        self.together([(actor, op)])

    @rule(ops=st.lists(st.tuples(actors, PATCH_OPS), min_size=2, max_size=4))
    def at_once(self, ops: list[tuple[int, Op]]) -> None:
        self.together(ops)

    async def does(self, session: Session, op: Op) -> Any:
        match op:
            case ("change",):
                await session.update_context(memory={"n": session.context.version})
                return None
            case ("approve", id):
                return await session.apply_pending_patch(id)
            case ("reject", id):
                return await session.reject_pending_patch(id)
        strategy = MergeStrategy.HUMAN_GATED if op[0] == "offer" else MergeStrategy.APPEND
        await session.apply_context_patch(patch=patch(op[1]), strategy=strategy, patch_id=op[1])
        return None

    def is_as(self, model: Patches) -> bool:
        return all(self.matches(session, model) for session in self.sessions)

    def matches(self, session: Session, model: Patches) -> bool:
        state = self.run(session.refresh())
        results = state.context.llm_context.get("background_results", [])
        return (
            list(state.pending_patches) == model.waiting
            and {id: state.outcome(id) for id in model.decided} == model.decided
            and [each["task_id"] for each in results] == model.results
            and state.context.version == model.version
        )

    @invariant()
    def the_context_has_its_hash_and_each_question_was_asked_once(self) -> None:
        if not hasattr(self, "sessions"):
            return
        context = self.run(self.sessions[1].refresh()).context
        expected = context_hash(context.llm_context) if context.version else None
        assert context.context_hash == expected
        asked = [each["patch_id"] for each in self.run(told(self.stores[0], "CHECKPOINT"))]
        assert len(asked) == len(set(asked))
        assert set(self.model.waiting) <= set(asked)
