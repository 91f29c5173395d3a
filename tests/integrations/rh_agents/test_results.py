"""What steps give, on every backend: models come back as what their type declares, or say why."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, create_model

import foldlog
from foldlog import RedactionFailed, Saving
from foldlog.integrations.rh_agents import ReplayMode, StateBackend
from foldlog.runs import RunPaused, UnreadableResult
from tests.conftest import OpenStore
from tests.integrations.rh_agents.running import Steps, answered, history, loaded
from tests.support.stores import appended


@dataclasses.dataclass(frozen=True)
class Leg:
    to: str
    at: dt.datetime = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)


class Flight(BaseModel):
    legs: tuple[Leg, ...] = ()
    tags: set[str] = set()
    fare: Decimal = Decimal("1.10")
    ticket: Path = Path("/tickets/7")


class Charter(Flight):
    crew: list[str] = []


class Opaque:
    """What nothing but a pickle holds."""


FLIGHT = Flight(legs=(Leg("Oslo"),), tags={"a", "b"})


def declaring(declared: Any, steps: Steps, result: Any) -> Callable[[], Awaitable[Any]]:
    """A step that is annotated to return that type."""
    step = steps.giving("step", result)
    step.__annotations__["return"] = declared
    return step


@pytest.mark.parametrize("artifact", [False, True], ids=["in the history", "an artifact"])
@pytest.mark.parametrize(
    ("declared", "result"),
    [
        (Flight, FLIGHT),
        (Leg, Leg("Oslo")),
        (list[Flight | None], [FLIGHT, None]),
        (dict[str, tuple[Leg, set[Leg]]], {"x": (Leg("Rome"), {Leg("Oslo")})}),
        (Path, Path("/tickets")),
        (Any, {"at": dt.datetime(2024, 1, 2, tzinfo=dt.UTC), "seats": (1, {2})}),
    ],
    ids=["a model", "a dataclass", "a list", "a map", "a path", "undeclared"],
)
async def test_a_result_comes_back_as_what_it_was(
    store: foldlog.Store,
    reopen: OpenStore,
    steps: Steps,
    declared: Any,
    result: Any,
    artifact: bool,
) -> None:
    step = declaring(declared, steps, result)
    async with StateBackend(store).execution("annotated") as run:
        assert await run.step("a", step, artifact=artifact) == result
        assert await run.get_event_result("a", declared) == result
    async with StateBackend(store).execution("said") as run:
        undeclared = steps.giving("step", result)
        assert await run.step("a", undeclared, artifact=artifact, returns=declared) == result
    other = await reopen()
    for name in ("annotated", "said"):
        async with StateBackend(other).execution(name) as run:
            again = await run.step("a", step, artifact=artifact)
            assert (again, type(again)) == (result, type(result))
    assert steps.called == ["step", "step"]


async def test_a_history_holds_models_as_plain_data(store: foldlog.Store, steps: Steps) -> None:
    async with StateBackend(store).execution("s") as run:
        await run.step("a", steps.giving("a", FLIGHT), returns=Flight)
        plain = await run.get_event_result("a")
    [event] = (await loaded(store, "s")).execution_state["history"]["events"]
    assert (
        event["result"]
        == plain
        == Flight.model_dump(FLIGHT)
        | {
            "legs": ({"to": "Oslo", "at": dt.datetime(2024, 1, 2, tzinfo=dt.UTC)},),
            "ticket": "/tickets/7",
        }
    )


@pytest.mark.parametrize("declared", [Any, Flight], ids=["no type", "its base"])
async def test_a_model_whose_type_is_not_declared_is_on_record_and_says_so(
    store: foldlog.Store, steps: Steps, declared: Any
) -> None:
    """In the run that calls the step, and not only in the one that would replay it."""
    given = Charter(legs=(Leg("Oslo"),), crew=["ann"])
    step = declaring(declared, steps, given)
    for _ in range(2):
        with pytest.raises(UnreadableResult, match="returns=") as refused:
            async with StateBackend(store).execution("s") as run:
                await run.step("a", step)
        assert (refused.value.step, refused.value.type) == ("a", "Charter")
        assert history(await loaded(store, "s")) == [("a", "completed")]
    async with StateBackend(store).execution("s") as run:
        assert await run.step("a", step, returns=Charter) == given
    assert steps.called == ["step"]


async def test_a_result_of_another_type_than_is_declared_now_says_so(
    store: foldlog.Store, steps: Steps
) -> None:
    async with StateBackend(store).execution("s") as run:
        await run.step("a", steps.giving("a", Leg("Oslo")), returns=Leg)
    async with StateBackend(store).execution("s") as run:
        with pytest.raises(UnreadableResult, match="Flight"):
            await run.step("a", steps.giving("a", None), returns=Flight | int)
        assert await run.step("a", steps.giving("a", None), returns=Leg) == Leg("Oslo")


async def test_a_class_may_have_more_fields_by_now(store: foldlog.Store, steps: Steps) -> None:
    def seat(**fields: Any) -> type[BaseModel]:
        return create_model("Seat", row=(int, ...), **fields)

    before, after = seat(), seat(window=(bool, False))
    async with StateBackend(store).execution("s") as run:
        await run.step("a", steps.giving("a", before(row=7)), returns=before)
    async with StateBackend(store).execution("s") as run:
        assert await run.step("a", steps.giving("a", None), returns=after) == after(row=7)


async def test_a_type_that_nothing_records_is_refused_before_the_step_is_called(
    store: foldlog.Store, steps: Steps
) -> None:
    async with StateBackend(store).execution("s") as run:
        before = await appended(store)
        with pytest.raises(foldlog.ConfigurationError, match="Opaque"):
            await run.step("a", declaring(Opaque, steps, Opaque()))
        assert await appended(store) == before
        assert await run.step("a", declaring(Opaque, steps, 1), returns=Any) == 1
    pickles = StateBackend(store).artifacts.with_codec("pickle")
    async with StateBackend(store).execution("pickled", artifacts=pickles) as run:
        given = await run.step("a", declaring(Opaque, steps, Opaque()), artifact=True)
        assert isinstance(given, Opaque)


async def test_an_artifact_of_a_model_is_json_for_other_programs(
    store: foldlog.Store, steps: Steps
) -> None:
    as_json = StateBackend(store).artifacts.with_codec("json")
    model = create_model("Seat", row=(int, ...))
    for _ in range(2):
        async with StateBackend(store).execution("s", artifacts=as_json) as run:
            step = steps.giving("a", model(row=7))
            assert await run.step("a", step, artifact=True, returns=model) == model(row=7)
    artifact_id = (await loaded(store, "s")).artifact_refs["a"]
    assert await StateBackend(store).artifacts.load_artifact(artifact_id) == {"row": 7}
    assert steps.called == ["a"]


async def test_what_is_confirmed_or_answered_is_of_the_type_that_is_declared(
    store: foldlog.Store, steps: Steps
) -> None:
    for given in (Leg("Oslo"), {"to": "Oslo"}):
        async with StateBackend(store).execution(f"by {type(given).__name__}") as run:
            with pytest.raises(RunPaused):
                await run.ask("where", Leg("Rome"))
            [event] = (await loaded(store, run.state_id)).execution_state["history"]["events"]
            assert event["request"]["to"] == "Rome"
            await answered(store, given)
            assert await run.ask("where", returns=Leg) == Leg("Oslo")
    async with StateBackend(store).execution("wrong") as run:
        with pytest.raises(RunPaused):
            await run.ask("where")
        await answered(store, "nowhere")
        with pytest.raises(UnreadableResult, match="Leg"):
            await run.ask("where", returns=Leg)
        assert await run.ask("where") == "nowhere"


async def test_a_validation_compares_models_field_by_field(
    store: foldlog.Store, steps: Steps
) -> None:
    async with StateBackend(store).execution("s") as run:
        await run.step("a", steps.giving("a", FLIGHT), returns=Flight)
    other = FLIGHT.model_copy(update={"fare": Decimal("2")})
    async with StateBackend(store).execution("s", replay_mode=ReplayMode.VALIDATION) as run:
        assert await run.step("a", steps.giving("a", other), returns=Flight) == other
    [mismatch] = run.validation.mismatches
    assert (mismatch.path, mismatch.recorded, mismatch.actual) == (
        "result.fare",
        Decimal("1.10"),
        Decimal("2"),
    )


async def test_a_hook_sees_the_fields_of_a_model_and_leaves_it_of_its_type(steps: Steps) -> None:
    def masking(saving: Saving) -> dict[str, Any]:
        if saving.kind != "run.step_done":
            return saving.values
        [leg] = saving.values["result"]["legs"]
        return {"result": saving.values["result"] | {"legs": ({**leg, "to": "***"},)}}

    def breaking(saving: Saving) -> dict[str, Any]:
        return {"result": 1} if saving.kind == "run.step_done" else saving.values

    async with foldlog.memory_store(redact=masking) as store:
        async with StateBackend(store).execution("s") as run:
            await run.step("a", steps.giving("a", FLIGHT), returns=Flight)
            found = await run.get_event_result("a", Flight)
        assert found == FLIGHT.model_copy(update={"legs": (Leg("***"),)})
    async with foldlog.memory_store(redact=breaking) as store:
        with pytest.raises(RedactionFailed, match="Flight"):
            async with StateBackend(store).execution("s") as run:
                await run.step("a", steps.giving("a", FLIGHT), returns=Flight)
