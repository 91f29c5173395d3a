#!/usr/bin/env python3
"""Stands in for Claude Code, with nothing to install and no key: it counts what it was told.

    ClaudeAgentOptions(cli_path="scripted_claude.py")

It speaks as much of Claude Code's stream-json as the SDK needs, goes on from the transcript that
the SDK restores, and hands what is new of it to the SDK, as Claude Code does.
"""

import json
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4


def option(name: str) -> str | None:
    """The value of `--name=value`, or of `--name value`."""
    for given, following in zip(sys.argv, [*sys.argv[1:], ""], strict=True):
        if given == f"--{name}":
            return following
        if given.startswith(f"--{name}="):
            return given.partition("=")[2]
    return None


def say(frame: dict) -> None:
    """Hand a frame to the SDK."""
    print(json.dumps(frame), flush=True)


def entry(role: str, content: object) -> dict:
    """A line of the transcript."""
    return {
        "type": role,
        "uuid": str(uuid4()),
        "timestamp": datetime.now(UTC).isoformat(),
        "sessionId": session,
        "message": {"role": role, "content": content},
    }


def answer(prompt: str) -> None:
    """Take a turn."""
    global told
    told += 1
    text = f"I was told {told} thing{'s'[: told > 1]}, at last: {prompt}"
    content = [{"type": "text", "text": text}]
    new = [entry("user", prompt), entry("assistant", content)]
    say({"type": "transcript_mirror", "filePath": str(transcript), "entries": new})
    message = {"role": "assistant", "model": "scripted", "content": content}
    say({"type": "assistant", "message": message, "session_id": session})
    took = {"duration_ms": 1, "duration_api_ms": 1, "num_turns": 1, "is_error": False}
    say({"type": "result", "subtype": "success", "session_id": session, "result": text, **took})


if "-v" in sys.argv:
    print("2.9.9 (Claude Code)")
    sys.exit()

config = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")
session = option("resume") or option("session-id") or str(uuid4())
project = re.sub("[^a-zA-Z0-9]", "-", str(Path.cwd().resolve()))
transcript = config / "projects" / project / f"{session}.jsonl"
restored = transcript.read_text("utf-8").splitlines() if option("resume") else []
told = sum(json.loads(line)["type"] == "user" for line in restored)

for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "control_request":
        done = {"subtype": "success", "request_id": frame["request_id"], "response": {}}
        say({"type": "control_response", "response": done})
    elif frame["type"] == "user":
        answer(frame["message"]["content"])
