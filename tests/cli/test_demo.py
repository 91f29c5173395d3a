"""The demo proves what it says, and would say so if it could not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

import foldlog
from foldlog.cli.demo import acts
from foldlog.cli.demo.kill import Killed, kill_proofs
from foldlog.cli.demo.transcript import Transcript, read_transcript
from foldlog.importer import demo_transcript, import_conversations
from tests.cli.support import run, run_process, start

NAMES = [
    "imported",
    "killed",
    "acked",
    "watched",
    "identical",
    "imported_again",
    "resumed",
    "rebuilt",
]


def test_the_demo_as_json() -> None:
    """Every proof holds, with saves in flight at the kill."""
    result = run_process("demo", "--json")
    assert (result.code, result.stderr) == (0, "")
    assert result.document["passed"] is True
    proofs = {proof["name"]: proof for proof in result.document["proofs"]}
    assert list(proofs) == NAMES
    assert all(proof["passed"] for proof in proofs.values())
    assert proofs["killed"]["saves_in_flight"] > 0
    assert proofs["killed"]["pid"] != proofs["killed"]["new_pid"]
    assert 0 < proofs["acked"]["acked"] < proofs["imported"]["messages"]
    assert proofs["identical"]["messages_in_log"] == proofs["imported"]["messages"]


def test_the_demo_for_people_on_a_file_and_a_directory_of_ones_own(tmp_path: Path) -> None:
    """What it imports stays there, under names of its own; one conversation is enough."""
    file = tmp_path / "one.jsonl"
    file.write_text(demo_transcript().read_text("utf-8").splitlines()[0] + "\n", "utf-8")
    path = tmp_path / "data"
    for count in (1, 2):
        result = run_process("demo", file, "--path", path)
        assert (result.code, result.stderr) == (0, "")
        assert result.stdout.count("✔") == len(NAMES)
        assert "SIGKILL to nats-server" in result.stdout
        sessions = run("sessions", "--path", path).ids
        assert len(sessions) == count
        assert all(name.startswith("demo-") for name in sessions)


def test_a_server_elsewhere_is_not_killed(tmp_path: Path) -> None:
    """The act is left out, and said to be."""
    with start("serve", "--path", tmp_path / "data", "--json", "--show-credentials") as serve:
        assert serve.stdout is not None
        facts = json.loads(serve.stdout.readline())
        sign_in = {"FOLDLOG_USER": facts["user"], "FOLDLOG_PASSWORD": facts["password"]}
        result = run_process("demo", "--url", facts["url"], "--json", **sign_in)
        serve.terminate()
    assert result.code == 0
    proofs = {proof["name"]: proof for proof in result.document["proofs"]}
    assert proofs["killed"]["passed"] is None
    assert "not the demo's to kill" in proofs["killed"]["reason"]
    assert "acked" not in proofs
    assert all(proof["passed"] for name, proof in proofs.items() if name != "killed")


def test_a_file_without_conversations() -> None:
    """One line, and no table."""
    result = run_process("demo", __file__)
    assert (result.code, result.stdout) == (1, "")
    assert result.stderr.startswith("foldlog: ")
    assert "Traceback" not in result.stderr


# --- the proofs can fail ----------------------------------------------------------------------


@pytest.fixture
def transcript() -> Transcript:
    """The bundled conversations."""
    return read_transcript(demo_transcript(), prefix="")


@pytest.fixture
async def filled(transcript: Transcript) -> AsyncIterator[foldlog.Store]:
    """A store that holds them."""
    async with foldlog.memory_store() as store:
        await import_conversations(store, [transcript.path])
        yield store


async def test_a_faithful_store_passes(filled: foldlog.Store, transcript: Transcript) -> None:
    """The acts themselves find no fault where there is none."""
    assert (await acts.identical(filled, transcript)).passed is True
    assert (await acts.imported_again(filled, transcript, "")).passed is True
    assert (await acts.rebuilt(filled, transcript, lambda _: None)).passed is True


async def test_a_lost_message_is_noticed(transcript: Transcript) -> None:
    """By count and by hash."""
    async with foldlog.memory_store() as store:
        first, *others = transcript.plans
        for plan in others:
            await store.append_messages(plan.trace_id, plan.objects["messages"])
        await store.append_messages(first.trace_id, first.objects["messages"][:-1])
        proof = await acts.identical(store, transcript)
        assert proof.passed is False
        assert proof.facts["messages_in_log"] == proof.facts["messages_in_file"] - 1


async def test_a_changed_message_is_noticed(transcript: Transcript) -> None:
    """The count is right, the hash is not."""
    async with foldlog.memory_store() as store:
        for number, plan in enumerate(transcript.plans):
            first, *others = plan.objects["messages"]
            if number == 0:
                first = msgspec.structs.replace(first, body={**first.body, "content": "changed"})
            await store.append_messages(plan.trace_id, [first, *others])
        proof = await acts.identical(store, transcript)
        assert proof.passed is False
        assert proof.facts["messages_in_log"] == proof.facts["messages_in_file"]


async def test_a_doubled_record_is_noticed(filled: foldlog.Store, transcript: Transcript) -> None:
    """An update that nobody imported."""
    extra = transcript.plans[0].objects["updates"][0].model_copy(update={"update_id": "another"})
    await filled.save_update(extra)
    assert (await acts.imported_again(filled, transcript, "")).passed is False


def test_a_lost_ack_and_a_server_that_did_not_come_back_are_noticed() -> None:
    """The two proofs of the kill are judged apart."""
    lost = Killed(1, 2, in_flight=9, acked=5, missing=1, outage=0.1, reading=0.1)
    assert [proof.passed for proof in kill_proofs(lost)] == [True, False]
    gone = Killed(1, None, in_flight=9, acked=5, missing=0, outage=0.1, reading=0.1)
    assert [proof.passed for proof in kill_proofs(gone)] == [False, True]
    assert [proof.passed for proof in kill_proofs(None)] == [False]
