"""State models that change: what an earlier version has written is upcast, or refused by name."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, Field

from foldlog.agents import AgentStates, IncompatibleAgentState
from foldlog.errors import PayloadError
from tests.agents.conftest import Cart, Note, Run

Manager = AgentStates[Run]


class Basket1(BaseModel):
    state_type: ClassVar[str] = "Basket"

    fruit: str = ""


class Basket2(BaseModel):
    state_type: ClassVar[str] = "Basket"
    state_version: ClassVar[int] = 2

    fruits: list[str] = []


class Basket3(BaseModel):
    state_type: ClassVar[str] = "Basket"
    state_version: ClassVar[int] = 3

    fruits: dict[str, int] = {}

    @classmethod
    def upcast(cls, state: dict[str, Any], version: int) -> dict[str, Any]:
        fruits = [state["fruit"]] if version == 1 else state["fruits"]
        return {"fruits": dict.fromkeys(fruits, 1)}


async def put(manager: Manager, state: BaseModel) -> None:
    async with manager.turn("shop/1") as ctx:
        ctx.update("basket", state)


@pytest.mark.parametrize("old", [Basket1(fruit="fig"), Basket2(fruits=["fig"])])
async def test_old_entries_are_upcast(manager: Manager, old: BaseModel) -> None:
    await put(manager, old)
    async with manager.turn("shop/1") as ctx:
        basket = await ctx.get("basket", Basket3)
        assert basket.fruits == {"fig": 1}
        ctx.update("basket", basket)
    dump = await manager.dump_state()
    assert dump["shop/1"]["basket"] == {
        "type": "Basket",
        "version": 3,
        "state": {"fruits": {"fig": 1}},
    }


@pytest.mark.parametrize(
    ("old", "model", "stored", "wanted"),
    [
        (Basket1(), Basket2, "Basket 1", "Basket 2"),  # no upcast
        (Basket3(), Basket2, "Basket 3", "Basket 2"),  # written by a newer program
        (Note(text="x"), Cart, "Note 1", "Cart 1"),  # another model
    ],
)
async def test_what_cannot_be_read_is_refused_naming_both(
    manager: Manager, old: BaseModel, model: type[BaseModel], stored: str, wanted: str
) -> None:
    await put(manager, old)
    with pytest.raises(IncompatibleAgentState, match=f"{stored}.*{wanted}") as caught:
        await manager.get_agent_state("shop/1", "basket", model)
    assert (caught.value.stored, caught.value.wanted) == (stored, wanted)
    assert (caught.value.scope, caught.value.key) == ("shop/1", "basket")


async def test_an_upcast_that_fails_is_a_refusal_naming_both(manager: Manager) -> None:
    class Basket9(Basket3):
        state_version: ClassVar[int] = 9

        @classmethod
        def upcast(cls, state: dict[str, Any], version: int) -> dict[str, Any]:
            return {"fruits": state["vegetables"]}

    await put(manager, Basket3())
    with pytest.raises(IncompatibleAgentState, match=r"Basket 3.*Basket 9.*KeyError") as caught:
        await manager.get_agent_state("shop/1", "basket", Basket9)
    assert isinstance(caught.value.__cause__, KeyError)


async def test_a_change_without_a_new_version_is_refused_with_what_is_wrong(
    manager: Manager,
) -> None:
    class Changed(BaseModel):
        state_type: ClassVar[str] = "Cart"

        items: int

    await put(manager, Cart(items=["x"]))
    with pytest.raises(IncompatibleAgentState, match="items"):
        await manager.get_agent_state("shop/1", "basket", Changed)


async def test_a_new_version_of_the_same_value_is_a_change(manager: Manager) -> None:
    class Same(BaseModel):
        state_type: ClassVar[str] = "Basket"
        state_version: ClassVar[int] = 2

        fruit: str = ""

    await put(manager, Basket1(fruit="fig"))
    await put(manager, Same(fruit="fig"))
    entry = await manager.get_agent_state("shop/1", "basket", Same)
    assert entry is not None
    assert entry.state == Same(fruit="fig")


async def test_a_version_is_a_positive_number(manager: Manager) -> None:
    class Bad(BaseModel):
        state_version: ClassVar[Any] = "2"

    async with manager.turn("shop/1") as ctx:
        with pytest.raises(PayloadError, match="state_version"):
            ctx.update("basket", Bad())


async def test_aliases_are_read_back(manager: Manager) -> None:
    class Aliased(BaseModel):
        count: int = Field(default=0, alias="Count")

    await put(manager, Aliased(Count=3))
    entry = await manager.get_agent_state("shop/1", "basket", Aliased)
    assert entry is not None
    assert entry.state.count == 3


async def test_aliases_for_writing_alone_lose_nothing(manager: Manager) -> None:
    class Line(BaseModel):
        price: int = Field(default=0, serialization_alias="Price")

    class Bill(BaseModel):
        lines: list[Line] = Field(default=[], validation_alias="in", serialization_alias="out")

    bill = Bill.model_validate({"in": [Line(price=3)]})
    await put(manager, bill)
    entry = await manager.get_agent_state("shop/1", "basket", Bill)
    assert entry is not None
    assert entry.state == bill
    assert entry.state.lines[0].price == 3
