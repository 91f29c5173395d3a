"""A server as the real JetStream log sees it through its connection.

It keeps nats-server's rules for message ids (two minutes), expected sequences, atomic batches,
direct gets and republishing. Requests and replies are lost, late, or cut off with the connection;
what is proposed while the leader goes is committed or not, and nobody says so.
"""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from foldlog.errors import LogTimeout, LogUnavailable
from foldlog.log.jetstream import JetStreamLog, wire
from foldlog.log.jetstream.client import Incoming, Outgoing, header_block, parse_headers
from foldlog.log.jetstream.connection import Forbidden, ReplyLost, status_of
from foldlog.subjects import LIVE_PREFIX, Namespace
from tests.faults.simulation.faults import Faults
from tests.faults.simulation.stream import REPLICAS, Stored, Stream

TIMEOUT = 5.0
_WINDOW = 120.0
_TRAVEL = 0.001
_CONSENSUS = 0.002
_NEVER = 1e9


def _incoming(data: bytes, headers: dict[str, str] | None = None, status: str = "") -> Incoming:
    block = header_block(headers or {}) if headers or status else b""
    if status:
        block = block.replace(b"NATS/1.0", f"NATS/1.0 {status}".encode(), 1)
    return Incoming(None, b"", b"", data, block, 0)


class _Proposal(NamedTuple):
    subject: str
    data: bytes
    id: str
    expect: int | None


def wired_log(stream: Stream, rng: random.Random, faults: Faults) -> WiredLog:
    """A JetStreamLog on the simulated stream."""
    return WiredLog(stream, rng, faults)


class WiredLog(JetStreamLog):
    """The real log on a simulated connection. `faults` may change as it lives."""

    def __init__(
        self, stream: Stream, rng: random.Random, faults: Faults, *, timeout: float = TIMEOUT
    ) -> None:
        self.wire = SimulatedConnection(stream, rng, faults)
        connection: Any = self.wire
        replicas = rng.choice([1, REPLICAS])
        self.wire.replicas = replicas
        super().__init__(connection, Namespace(), replicas=replicas, timeout=timeout)

    @property
    def faults(self) -> Faults:
        """What goes wrong."""
        return self.wire.faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self.wire.faults = faults

    def heal(self) -> None:
        """Let everything pass but pushes, which are only hints."""
        self.faults = Faults(dropped=1.0)

    @property
    def following(self) -> int:
        """How many subscriptions there are."""
        return len(self.wire.subscriptions)


class Leader:
    """What the stream's leader does with what arrives: one for each stream."""

    def __init__(self, stream: Stream, rng: random.Random) -> None:
        self._stream = stream
        self._rng = rng
        self._ids: dict[str, tuple[int, float]] = {}
        self.stored_as: dict[int, str] = {}
        self._in_process: dict[str, str] = {}
        self._committed = 0.0

    @classmethod
    def of(cls, stream: Stream, rng: random.Random) -> Leader:
        """The leader of a stream, whoever asks."""
        leader: Leader | None = vars(stream).get("leader")
        if leader is None:
            leader = vars(stream)["leader"] = cls(stream, rng)
        return leader

    def take(
        self,
        batch: Sequence[_Proposal],
        reply: Callable[[dict[str, Any]], None],
        *,
        single: bool,
    ) -> None:
        """Look at a publish, or at the commit of a batch, and propose it.

        `single`: a server without replicas compares a publish's expected sequence first of all.
        """
        loop = asyncio.get_running_loop()
        if single and len(batch) == 1 and self._mismatch(batch[0], reply):
            return
        known = [self._known(proposal.id) for proposal in batch]
        if len(batch) == 1 and known[0] is not None:
            reply({"seq": known[0], "duplicate": True})
            return
        if any(seq is not None for seq in known):
            reply(_refused(wire.DUPLICATE_IN_BATCH, "duplicate"))
            return
        if any(proposal.id in self._in_process for proposal in batch):
            reply(_refused(wire.DUPLICATE_IN_PROCESS, "in process", 409))
            return
        for proposal in batch:
            if proposal.expect is None:
                continue
            if proposal.subject in self._in_process.values():
                reply(_refused(wire.WRONG_LAST_SEQUENCE_OR_BUSY, "wrong last sequence"))
                return
            if self._mismatch(proposal, reply):
                return
        self._in_process |= {proposal.id: proposal.subject for proposal in batch}
        self._committed = max(self._committed, loop.time() + self._rng.random() * _CONSENSUS)
        loop.call_at(self._committed, self._commit, batch, reply)

    def _mismatch(self, proposal: _Proposal, reply: Callable[[dict[str, Any]], None]) -> bool:
        head = self._stream.head(proposal.subject)
        if proposal.expect in (None, head):
            return False
        reply(_refused(wire.WRONG_LAST_SEQUENCE, f"wrong last sequence: {head}"))
        return True

    def _commit(self, batch: Sequence[_Proposal], reply: Callable[[dict[str, Any]], None]) -> None:
        for proposal in batch:
            del self._in_process[proposal.id]
        led = self._stream.elected.is_set()
        if not led and self._rng.random() < 0.5:
            return  # it was never agreed upon
        seq = 0
        for proposal in batch:
            seq = self._stream.store(proposal.subject, proposal.data).seq
            self._ids[proposal.id] = (seq, asyncio.get_running_loop().time())
            self.stored_as[seq] = proposal.id
        if led:
            reply({"seq": seq, "count": len(batch)})

    def _known(self, id: str) -> int | None:
        seq, since = self._ids.get(id, (0, -_NEVER))
        return seq if asyncio.get_running_loop().time() - since < _WINDOW else None


class SimulatedConnection:
    """What `foldlog.log.jetstream.connection.Connection` is to the log."""

    max_payload = 1024 * 1024
    url = "simulated:"
    replicas = REPLICAS
    reconnects = 0  # what it connects to never loses anything

    def __init__(self, stream: Stream, rng: random.Random, faults: Faults) -> None:
        self.faults = faults
        self.epoch = 0
        self.server: dict[str, Any] = {"jetstream": True}
        self.subscriptions: dict[object, tuple[str, Callable[[Any], None]]] = {}
        self._stream = stream
        self._leader = Leader.of(stream, rng)
        self._rng = rng
        self._connected = asyncio.Event()
        self._connected.set()
        self._asked: set[asyncio.Future[Any]] = set()
        self._notify: list[Callable[[], None]] = []
        self._last_arrival = 0.0
        stream.listeners.append(self._push)

    def forbids(self, subject: str) -> bool:
        """See Connection. There are no marks."""
        return True

    @property
    def asked(self) -> int:
        """How many requests wait for a reply."""
        return len(self._asked)

    # --- requests -------------------------------------------------------------------------------

    async def ready(self, timeout: float) -> None:
        """See Connection."""
        if self._connected.is_set():
            return
        try:
            async with asyncio.timeout(max(timeout, 0)):
                await self._connected.wait()
        except TimeoutError:
            raise LogUnavailable("not connected") from None

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        timeout: float,
        headers: dict[str, str] | None = None,
    ) -> Incoming:
        """See Connection."""
        reply = await self._ask([Outgoing(subject, payload)], timeout)
        if reply is None:
            raise ReplyLost("no reply came")
        if status_of(reply) == "503":
            raise LogUnavailable("nobody answers")
        return reply

    async def request_all(self, messages: Sequence[Outgoing], *, timeout: float) -> list[Incoming]:
        """See Connection. There are no marks."""
        raise Forbidden(messages[0].subject)

    async def request_each(
        self, messages: Sequence[Outgoing], *, timeout: float, asks: int | None = None
    ) -> list[Incoming | None]:
        """See Connection."""
        if asks == 1:
            return [await self._ask(messages, timeout)]
        return list(await asyncio.gather(*(self._ask([each], timeout) for each in messages)))

    async def collect(self, subject: str, payload: bytes, *, timeout: float) -> list[Incoming]:
        """See Connection."""
        reply = await self._ask([Outgoing(subject, payload)], timeout)
        if reply is None:
            if self._connected.is_set():
                raise LogTimeout(subject, timeout)
            raise ReplyLost("the connection broke")
        return reply

    async def _ask(self, messages: Sequence[Outgoing], timeout: float) -> Any:
        self._maybe_break()
        if not self._connected.is_set():
            raise LogUnavailable("not connected")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()

        def reply(answer: Any) -> None:
            if not self._happens(self.faults.lost_ack):
                loop.call_later(self._rng.random() * _TRAVEL, _tell, done, answer)

        # What one connection sends arrives in order, unless it is a long time on its way.
        self._last_arrival = max(self._last_arrival, loop.time() + self._rng.random() * _TRAVEL)
        arrival = self._last_arrival
        if self._happens(self.faults.ghost):
            arrival += self._rng.random() * 6 * TIMEOUT
        if not self._happens(self.faults.vanished):
            loop.call_at(arrival, self._arrive, messages, reply)
        self._asked.add(done)
        given_up = loop.call_later(timeout, _tell, done, None)
        try:
            return await done
        finally:
            given_up.cancel()
            self._asked.discard(done)

    def _arrive(self, messages: Sequence[Outgoing], reply: Callable[[Any], None]) -> None:
        last = messages[-1]
        if last.subject.startswith("$JS.API.DIRECT.GET"):
            reply(self._direct(msgspec.json.decode(last.payload)))
        elif not self._stream.elected.is_set() or self._happens(self.faults.refused):
            if self._rng.random() < 0.5:  # else nobody says anything
                reply(_status("503"))
        elif last.subject.startswith("$JS.API."):
            verb = last.subject.removeprefix("$JS.API.STREAM.").rpartition(".")[0]
            answer = self._api(verb, msgspec.json.decode(last.payload or b"{}"))
            reply(_incoming(msgspec.json.encode(answer)))
        else:
            headers = [parse_headers(message.headers) for message in messages]
            if len(messages) > 1 and self._happens(self.faults.busy):
                answer = _refused(wire.BATCH_INCOMPLETE, "incomplete")
                reply(_incoming(msgspec.json.encode(answer)))
                return
            batch = [
                _Proposal(message.subject, message.payload, each["Nats-Msg-Id"], _expected(each))
                for message, each in zip(messages, headers, strict=True)
            ]
            self._leader.take(
                batch,
                lambda answer: reply(_incoming(msgspec.json.encode(answer))),
                single=self.replicas == 1,
            )

    def _api(self, verb: str, wanted: dict[str, Any]) -> dict[str, Any]:
        match verb:
            case "INFO" if not wanted:
                last_seq = max(map(self._stream.head, self._stream.subjects()), default=0)
                state = {"messages": 0, "last_seq": last_seq}
                return {"config": {"num_replicas": self.replicas}, "state": state}
            case "INFO":
                held = len(self._stream.read(wanted["subjects_filter"]))
                return {"state": {"subjects": {wanted["subjects_filter"]: held} if held else {}}}
            case "PURGE":
                return {"success": True}  # only ever of what holds nothing
            case "MSG.GET":
                return self._message(wanted)
            case _:
                raise AssertionError(verb)

    def _message(self, wanted: dict[str, Any]) -> dict[str, Any]:
        if "next_by_subj" in wanted:
            found = self._stream.read(wanted["next_by_subj"], wanted["seq"] - 1)[:1]
        else:
            found = self._stream.read(wanted["last_by_subj"])[-1:]
        if not found:
            return _refused(wire.NO_MESSAGE, "no message found", 404)
        (stored,) = found
        id = self._leader.stored_as.get(stored.seq, "")
        headers = f"NATS/1.0\r\nNats-Msg-Id: {id}\r\n\r\n".encode()
        encoded = {"data": stored.data, "hdrs": headers}
        fields = {name: base64.b64encode(data).decode() for name, data in encoded.items()}
        return {"message": {"seq": stored.seq, "time": stored.time, **fields}}

    def _direct(self, wanted: dict[str, Any]) -> Any:
        replica = self._rng.randrange(self.replicas) if self.replicas > 1 else 0
        if "multi_last" in wanted:
            found = self._stream.read(wanted["multi_last"][0], 0, replica)
            return _stored(found[-1]) if found else _status("404 No Results")
        if "last_by_subj" in wanted:
            found = self._stream.read(wanted["last_by_subj"], 0, replica)
            return _stored(found[-1]) if found else _status("404")
        found = self._stream.read(wanted["next_by_subj"], wanted["seq"] - 1, replica)
        if not found:
            return [_status("404")]
        page = found[: self._rng.randint(1, 4)]
        before = [0, *(stored.seq for stored in page)]
        pending = {"Nats-Num-Pending": str(len(found) - len(page))}
        end = _incoming(b"", pending, "204")
        return [*(_stored(s, b) for s, b in zip(page, before, strict=False)), end]

    # --- pushes ---------------------------------------------------------------------------------

    async def subscribe(self, subject: str, on_message: Callable[[Any], None]) -> object:
        """See Connection."""
        await asyncio.sleep(0)
        key = object()
        self.subscriptions[key] = (subject, on_message)
        return key

    async def unsubscribe(self, subscription: object) -> None:
        """See Connection."""
        del self.subscriptions[subscription]

    def _push(self, stored: Stored) -> None:
        subject = f"{LIVE_PREFIX}.{stored.subject}"
        wanted = [call for name, call in self.subscriptions.values() if name == subject]
        if not wanted or not self._connected.is_set() or self._happens(self.faults.dropped):
            return
        loop = asyncio.get_running_loop()
        for _ in range(2 if self._happens(self.faults.repeated) else 1):
            delay = self._rng.random() * _TRAVEL
            if self._happens(self.faults.late):
                delay += self._rng.random() * 10
            loop.call_later(delay, self._deliver, stored, self.epoch, subject)

    def _deliver(self, stored: Stored, epoch: int, subject: str) -> None:
        if epoch == self.epoch:  # else it was on the connection that broke
            for name, on_message in list(self.subscriptions.values()):
                if name == subject:
                    on_message(_stored(stored, stored.previous))

    # --- the connection -------------------------------------------------------------------------

    def on_epoch(self, notify: Callable[[], None]) -> None:
        """See Connection."""
        self._notify.append(notify)

    def miss(self) -> None:
        """See Connection."""
        self.epoch += 1
        for notify in self._notify:
            notify()

    async def close(self) -> None:
        """See Connection."""
        if self._push in self._stream.listeners:
            self._stream.listeners.remove(self._push)

    def _maybe_break(self) -> None:
        if self._happens(self.faults.cut / 4) and self._connected.is_set():
            away = self._rng.choice([0.1, 1.0, 8.0])
            loop = asyncio.get_running_loop()
            # Now and then in the middle of what is about to be asked.
            loop.call_later(self._rng.choice([0.0, _TRAVEL]), self._break, away)
        if self._happens(self.faults.election / 20) and self._stream.elected.is_set():
            self._stream.elect(self._rng.choice([0.5, 4.0, 12.0]))

    def _break(self, away: float) -> None:
        self._connected.clear()
        for done in self._asked:
            _tell(done, None)
        self.miss()
        asyncio.get_running_loop().call_later(away, self._reconnect)

    def _reconnect(self) -> None:
        self._connected.set()
        self.miss()

    def _happens(self, chance: float) -> bool:
        return chance > 0 and self._rng.random() < chance


def _tell(done: asyncio.Future[Any], answer: Any) -> None:
    if not done.done():
        done.set_result(answer)


def _refused(err_code: int, description: str, code: int = 400) -> dict[str, Any]:
    return {"error": {"code": code, "err_code": err_code, "description": description}}


def _expected(headers: dict[str, str]) -> int | None:
    expected = headers.get("Nats-Expected-Last-Subject-Sequence")
    return None if expected is None else int(expected)


def _status(status: str) -> Incoming:
    return _incoming(b"", status=status)


def _stored(stored: Stored, previous: int = 0) -> Incoming:
    headers = {
        "Nats-Sequence": str(stored.seq),
        "Nats-Time-Stamp": stored.time,
        "Nats-Last-Sequence": str(previous),
    }
    return _incoming(stored.data, headers)
