"""Whatever bytes stand in the log: decoding builds values, or says that it cannot."""

from __future__ import annotations

import pickle
import random
import sys
from typing import Any

import msgspec
import pytest

import foldlog
from foldlog import codec
from foldlog.envelope import Draft, draft, pack, unpack
from foldlog.log.port import Append
from foldlog.store.payloads import dump  # noqa: F401  # what is decoded with is loaded first
from tests.support.fresh import fresh_python

_pack = msgspec.msgpack.encode

SEED = 20_250_101
DECODES = 20_000


class Opens:
    """What would open a file if it were unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        return open, ("/nonexistent/owned", "w")


def ext(code: int, data: bytes) -> bytes:
    return _pack(msgspec.msgpack.Ext(code, data))


def deep(levels: int) -> bytes:
    """Tuples in tuples: each level is a call of the decoder's hook."""
    body = _pack(1)
    for _ in range(levels):
        body = ext(6, b"\x91" + body)
    return body


CRAFTED: dict[str, bytes] = {
    "pickle": pickle.dumps(Opens()),
    "pickle in bytes": _pack(pickle.dumps(Opens())),
    "a name": _pack({"__class__": "os.system", "py/object": "subprocess.Popen", "$type": "x"}),
    "a call": _pack({"__reduce__": ["os.system", ["true"]], "__setstate__": {}}),
    "an import": _pack(["!!python/object/apply:os.system", "__import__('os')"]),
    **{f"extension {code}": ext(code, b"os.system") for code in (-128, -2, 0, 11, 42, 100, 127)},
    "an unhashable member": ext(7, _pack([[1]])),
    "a date that is none": ext(3, b"__import__('os')"),
    "a decimal that is none": ext(9, b"os.system"),
    "an endless timedelta": ext(5, _pack([10**18, 0, 0])),
    "a timedelta of words": ext(5, _pack(["a", "b", "c"])),
    "a timedelta by name": ext(5, _pack({"days": 1})),
    "a short UUID": ext(10, b"x"),
    "no text": ext(2, b"\xff\xfe"),
    "deep extensions": deep(100_000 // 8),
    "deep lists": b"\x91" * 200_000 + b"\xc0",
    "deep maps": b"\x81\xa1x" * 200_000 + b"\xc0",
    "a list longer than it is": b"\xdd\xff\xff\xff\xff",
    "a map longer than it is": b"\xdf\xff\xff\xff\xff",
    "bytes longer than they are": b"\xc6\xff\xff\xff\xff",
    "a long number": ext(1, b"\x7f" * 1_000_000),
    "nothing": b"",
}

FAULTS = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError, msgspec.MsgspecError)
"""What `foldlog.store.restoring` makes LogCorrupt of."""


def decoded(data: bytes) -> object:
    try:
        return codec.decode(data)
    except FAULTS:
        return None


def test_decoding_never_imports_opens_or_calls() -> None:
    """Python itself tells of every import, file, process and socket: none may happen."""
    code = f"""
import sys
sys.path.insert(0, {sys.path[0]!r})
from tests.security.test_decoding import CRAFTED, SEED, decoded, mutated
import random, encodings.idna
generator = random.Random(SEED)
told = []
crafted = [*CRAFTED.values(), *mutated(generator, 500)]
[decoded(data) for data in crafted]  # what the types themselves load, they load now
sys.addaudithook(lambda event, _: told.append(event))
for data in crafted:
    decoded(data)
watched = ("import", "open", "exec", "compile", "subprocess", "os.", "socket", "pickle", "ctypes")
print(sorted({{event for event in told if event.startswith(watched)}}))
"""
    assert fresh_python(code) == "[]"


def test_the_audit_would_tell() -> None:
    code = (
        "import sys, pickle\n"
        "from tests.security.test_decoding import CRAFTED\n"
        "told = []\n"
        "sys.addaudithook(lambda event, _: told.append(event))\n"
        "try: pickle.loads(CRAFTED['pickle'])\n"
        "except OSError: print('open' in told)\n"
    )
    assert fresh_python(code) == "True"


def mutated(generator: random.Random, count: int) -> list[bytes]:
    """Valid encodings with bytes flipped, cut, doubled and joined."""
    from foldlog.testing.values import EXACT_VALUES

    valid = [codec.encode({"value": value}) for value in EXACT_VALUES]
    made = []
    for _ in range(count):
        data = bytearray(generator.choice(valid))
        for _ in range(generator.randint(1, 8)):
            at = generator.randrange(len(data) + 1)
            match generator.randrange(4):
                case 0:
                    data[at : at + 1] = bytes([generator.randrange(256)])
                case 1:
                    del data[at : at + generator.randrange(8)]
                case 2:
                    data[at:at] = generator.randbytes(generator.randrange(8))
                case _:
                    data[at:at] = generator.choice(valid)
        made.append(bytes(data))
    return made


def test_broken_payloads_decode_or_fail_as_expected() -> None:
    results = [decoded(data) for data in mutated(random.Random(SEED), DECODES)]
    assert any(results)
    assert None in results


def test_broken_records_unpack_or_fail_as_expected() -> None:
    generator = random.Random(SEED)
    valid = pack(
        [draft("t", codec.encode({"n": 1}), id="id"), Draft("i", "t", 1, 0.5, b"", ("k",))]
    )
    failed = 0
    for _ in range(DECODES):
        data = bytearray(valid)
        for _ in range(generator.randint(1, 4)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        try:
            unpack(bytes(data), 1, "2025-01-01T00:00:00Z")
        except msgspec.MsgspecError:
            failed += 1
    assert 0 < failed < DECODES


@pytest.mark.parametrize("name", CRAFTED)
async def test_a_crafted_payload_is_a_value_or_corrupt(name: str) -> None:
    """By every way from the log to a reader."""
    async with foldlog.memory_store() as store:
        reads = {
            "memory": ("memory.saved", store.load_memory_state),
            "events": ("event.saved", store.load_history),
            "updates": ("update.saved", store.list_updates),
            "tasks": ("task.saved", store.list_tasks),
            "steering": ("steering.saved", store.list_steering),
            "planner": ("planner.saved", store.list_planner_events),
            "bindings": ("binding.saved", lambda trace: store.list_bindings(trace_id=trace)),
            "pauses": ("pause.saved", store.load_planner_state),
            "traces": ("trace.saved", store.list_traces),
        }
        for family, (type, read) in reads.items():
            subject = store._core.subject(family, "key")
            made = draft(type, CRAFTED[name], id="crafted")
            await store._core.log.append([Append(subject, (made,))])
            try:
                await read("key")
            except foldlog.LogCorrupt:
                continue
            assert family in ("memory", "traces"), "what fits no schema was read as if it did"
        await store.save_memory_state("other", {"n": 1})
        assert await store.load_memory_state("other") == {"n": 1}
