"""A process with an execution of another library, on foldlog's blocking backends.

foreign_worker.py PATH NAMESPACE STATE EFFECTS OPTIONS

Run as a script; speaks one JSON value per line, as `worker.py` does. It loads the state if there is
one. Each step appends its name to the file EFFECTS. OPTIONS is a JSON object:

    halt_after: NAME   says ["after", NAME] when that step has been saved, and waits for a line
    auto: true         the library saves by itself; otherwise this program does after each step
    resume_from: NAME  does that step and those after it again
    status: TEXT       of its last checkpoint
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# Run as a script, so that a worker costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

from foldlog.integrations.rh_agents import SyncArtifactBackend, SyncStateBackend
from tests.integrations.rh_agents.foreign import (
    ForeignEventType,
    ForeignMetadata,
    ForeignState,
    ForeignStatus,
)

METADATA = ForeignMetadata(tags=["theirs"], pipeline_name="booking")


class Model:
    """An object that only a pickle can hold, made at a cost."""

    def __init__(self, weights: list[int]) -> None:
        self.weights = weights


def say(*value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def pipeline(state: ForeignState, effects: Path, options: dict[str, Any]) -> dict[str, Any]:
    def happening(name: str, result: Any) -> Any:
        def handler() -> Any:
            with effects.open("a") as file:
                file.write(f"{name}\n")
            return result

        return handler

    def step(name: str, kind: ForeignEventType, result: Any) -> Any:
        found = state.run(name, kind, happening(name, result))
        if not options.get("auto"):
            assert state.save_checkpoint(ForeignStatus.RUNNING, METADATA)
        if options.get("halt_after") == name:
            say("after", name)
            sys.stdin.readline()
        return found

    found = step("search", ForeignEventType.LLM_CALL, {"flights": [7, 8]})
    if "model" not in state.storage.artifacts:
        happening("train", None)()
        state.storage.artifacts["model"] = Model([1, 2, 3])
    state.storage.data["seat"] = "12A"
    picked = step("pick", ForeignEventType.TOOL_CALL, {"flight": found["flights"][0]})
    paid = step("pay", ForeignEventType.TOOL_CALL, {"paid": picked["flight"]})
    return {"paid": paid, "weights": state.storage.artifacts["model"].weights}


def main(path: str, namespace: str, state_id: str, effects: str, given: str) -> None:
    options, place = json.loads(given), {"path": path, "namespace": namespace}
    with (
        SyncStateBackend(**place) as states,
        SyncArtifactBackend(**place, codec="pickle") as artifacts,
    ):
        state = ForeignState.load_from_state_id(
            state_id, states, artifacts, resume_from_address=options.get("resume_from")
        )
        say("loaded" if state else "new")
        state = state or ForeignState(state_id=state_id).use(states, artifacts)
        state.auto_checkpoint = options.get("auto", False)
        result = pipeline(state, Path(effects), options)
        assert state.save_checkpoint(ForeignStatus(options.get("status", "completed")), METADATA)
        say("done", result, state.event_bus.told)


if __name__ == "__main__":
    # By its own name: what is pickled here must be found by whoever reads it.
    from tests.integrations.rh_agents.processes import foreign_worker

    foreign_worker.main(*sys.argv[1:])
