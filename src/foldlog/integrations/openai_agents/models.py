"""A model whose calls are steps of a run, asked at once or for a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from agents.models.interface import Model, ModelProvider
from openai.types.responses import Response, ResponseCompletedEvent, ResponseUsage
from pydantic import TypeAdapter

from agents import ModelBehaviorError, ModelResponse, Usage
from foldlog.integrations.calls import heard

_ENDS: Final = ("response.completed", "response.incomplete", "response.failed")
"""The last events of a response."""

_responses: Final[TypeAdapter[ModelResponse]] = TypeAdapter(ModelResponse)


class Asked(NamedTuple):
    """A response in JSON, its model, and how many tokens it took."""

    said: Any
    model: str
    input_tokens: int
    output_tokens: int


class DurableModel(Model):
    """Asks a model in a step, which `step` does; `say` hears the events of a stream."""

    def __init__(
        self,
        model: str | Model | None,
        provider: ModelProvider,
        step: Callable[[Callable[[], Awaitable[Asked]]], Awaitable[Any]],
        say: Callable[[Any], Awaitable[Any]] | None,
    ) -> None:
        self._model = model
        self._called: str | None = None
        self._provider = provider
        self._step = step
        self._say = say

    def get_retry_advice(self, request: Any) -> Any:
        return self._asked().get_retry_advice(request)

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        async def ask() -> Asked:
            if self._say is not None:
                return await self._streamed(None, args, options)
            return self._as_asked(await self._asked().get_response(*args, **options))

        return _responses.validate_python(await self._step(ask))

    async def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        def step(hear: Callable[[Any], None]) -> Awaitable[Any]:
            return self._step(lambda: self._streamed(hear, args, options))

        async with aclosing(heard(step)) as things:
            async for thing, is_result in things:
                yield _completed(_responses.validate_python(thing)) if is_result else thing

    async def _streamed(self, hear: Callable[[Any], None] | None, args: Any, options: Any) -> Asked:
        """Hear a stream to its end."""
        items: list[Any] = []
        response: Response | None = None
        async for event in self._asked().stream_response(*args, **options):
            if self._say is not None:
                await self._say(event.model_dump(mode="json", exclude_none=True))
            if event.type == "response.output_item.done":
                items.append(event.item)
            if event.type in _ENDS:
                response = event.response
                break
            if hear is not None:
                hear(event)
        if response is None or response.status == "failed":
            raise ModelBehaviorError(f"the model did not end its response: {response!r:.300}")
        used = response.usage
        usage = Usage(requests=1)
        if used is not None:
            usage = Usage(
                requests=1,
                input_tokens=used.input_tokens,
                output_tokens=used.output_tokens,
                total_tokens=used.total_tokens,
                input_tokens_details=used.input_tokens_details,
                output_tokens_details=used.output_tokens_details,
            )
        output = response.output or items
        return self._as_asked(ModelResponse(output, usage, response.id))

    def _as_asked(self, response: ModelResponse) -> Asked:
        # What the model left unset stays so: services refuse fields that they do not know.
        said = _responses.dump_python(response, mode="json", exclude_unset=True)
        name = str(self._called or getattr(self._model, "model", ""))
        return Asked(said, name, response.usage.input_tokens, response.usage.output_tokens)

    def _asked(self) -> Model:
        if not isinstance(self._model, Model):
            self._called = self._model
            self._model = self._provider.get_model(self._model)
        return self._model


def _completed(response: ModelResponse) -> ResponseCompletedEvent:
    """The last event of a response that is on record."""
    used = response.usage
    return ResponseCompletedEvent(
        type="response.completed",
        sequence_number=0,
        response=Response(
            id=response.response_id or "",
            created_at=0,
            model="",
            object="response",
            output=response.output,
            parallel_tool_calls=False,
            tool_choice="auto",
            tools=[],
            usage=ResponseUsage(
                input_tokens=used.input_tokens,
                output_tokens=used.output_tokens,
                total_tokens=used.total_tokens,
                input_tokens_details=used.input_tokens_details,
                output_tokens_details=used.output_tokens_details,
            ),
        ),
    )
