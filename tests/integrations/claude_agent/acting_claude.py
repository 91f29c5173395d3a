#!/usr/bin/env python3
"""Stands in for Claude Code that does the script of the matrix, and calls its tools of the SDK.

    ClaudeAgentOptions(cli_path="acting_claude.py", env={"SCRIPT_FILE": ..., "SCRIPT_DIES_AT": ...})

It goes on from a transcript, from which it leaves out what was cut short: a message of the model
one of whose calls has no result. The process that dies is the SDK's.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.integrations.durable.script import Script

SERVER = "travel"


def option(name: str) -> str | None:
    """The value of `--name=value`, or of `--name value`."""
    for given, following in zip(sys.argv, [*sys.argv[1:], ""], strict=True):
        if given == f"--{name}":
            return following
        if given.startswith(f"--{name}="):
            return given.partition("=")[2]
    return None


def say(frame: dict[str, Any]) -> None:
    """Hand a frame to the SDK."""
    sys.stdout.write(json.dumps(frame) + "\n")
    sys.stdout.flush()


def blocks(entry: dict[str, Any], type: str) -> list[Any]:
    content = entry["message"]["content"]
    return [b for b in content if b["type"] == type] if isinstance(content, list) else []


class Claude:
    """One session."""

    def __init__(self) -> None:
        config = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")
        self.session = option("resume") or option("session-id") or str(uuid4())
        project = re.sub("[^a-zA-Z0-9]", "-", str(Path.cwd().resolve()))
        self.file = config / "projects" / project / f"{self.session}.jsonl"
        lines = self.file.read_text("utf-8").splitlines() if option("resume") else []
        entries = [json.loads(line) for line in lines]
        results = {b["tool_use_id"] for e in entries for b in blocks(e, "tool_result")}
        cut = {
            b["id"]
            for e in entries
            for b in blocks(e, "tool_use")
            if any(other["id"] not in results for other in blocks(e, "tool_use"))
        }
        self.entries = [
            e
            for e in entries
            if not cut & {b.get("id") or b.get("tool_use_id") for b in e_blocks(e)}
        ]
        file, dies_at = Path(os.environ["SCRIPT_FILE"]), os.environ["SCRIPT_DIES_AT"]
        self.script = Script(file, dies_at, os.getppid())
        self.requests = 0
        self.later: list[Any] = []
        """What came while it waited for an answer."""

    def add(self, role: str, content: Any, **message: Any) -> None:
        entry = {
            "type": role,
            "uuid": str(uuid4()),
            "message": {"role": role, "content": content, **message},
        }
        self.entries.append(entry)
        say({"type": "transcript_mirror", "filePath": str(self.file), "entries": [entry]})
        shown = {"role": role, "model": "scripted", "content": content}
        say({"type": role, "message": shown, "session_id": self.session})

    def request(self, method: str, params: Any = None) -> Any:
        """Have the SDK's server answer a request, or hear a notification."""
        self.requests += 1
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if not method.startswith("notifications/"):
            message["id"] = self.requests
        request = {"subtype": "mcp_message", "server_name": SERVER, "message": message}
        return self.control(request)["mcp_response"].get("result")

    def control(self, request: Any) -> Any:
        """Have the SDK answer."""
        id = f"request {uuid4()}"
        say({"type": "control_request", "request_id": id, "request": request})
        for line in sys.stdin:
            frame = json.loads(line)
            if frame["type"] == "control_response":
                return frame["response"]["response"]
            self.later.append(frame)
        sys.exit()  # the SDK has gone

    def may(self, use: Any) -> bool:
        """Whether a tool may be called, if somebody is to be asked."""
        if "--permission-prompt-tool" not in sys.argv:
            return True
        asked = {"tool_name": use["name"], "input": use["input"], "tool_use_id": use["id"]}
        request = {"subtype": "can_use_tool", "permission_suggestions": [], **asked}
        return bool(self.control(request)["behavior"] == "allow")

    def connect(self) -> None:
        """Shake hands with the server of tools."""
        info = {"name": "acting", "version": "1"}
        version = {"protocolVersion": "2025-06-18", "capabilities": {}}
        self.request("initialize", {**version, "clientInfo": info})
        self.request("notifications/initialized")

    def turn(self, prompt: str) -> None:
        """Take a turn."""
        self.add("user", prompt)
        while True:
            said = sum(each["type"] == "assistant" for each in self.entries)
            if not (wanted := self.script.model(said)):
                break
            uses = [
                {
                    "type": "tool_use",
                    "id": f"{self.session} {len(self.entries)} {each.id}",
                    "name": f"mcp__{SERVER}__{each.tool}",
                    "input": {"city": each.city},
                }
                for each in wanted
            ]
            self.add("assistant", uses, id=str(uuid4()))
            for use, each in zip(uses, wanted, strict=True):
                result = {"content": [{"type": "text", "text": f"no {each.tool}"}], "isError": True}
                if self.may(use):
                    params = {"name": each.tool, "arguments": use["input"]}
                    result = self.request("tools/call", params)
                self.add(
                    "user",
                    [
                        {
                            "type": "tool_result",
                            "tool_use_id": use["id"],
                            "content": result["content"],
                            "is_error": result.get("isError", False),
                        }
                    ],
                )
        found = [b["content"][0]["text"] for e in self.entries for b in blocks(e, "tool_result")]
        text = self.script.answer(found)
        self.add("assistant", [{"type": "text", "text": text}], id=str(uuid4()))
        took = {"duration_ms": 1, "duration_api_ms": 1, "num_turns": 1, "is_error": False}
        used = {"model_usage": {}, "modelUsage": {"m-1": {"inputTokens": 9, "outputTokens": 4}}}
        ended = {"type": "result", "subtype": "success", "session_id": self.session}
        say({**ended, "result": text, **took, **used})


def e_blocks(entry: dict[str, Any]) -> list[Any]:
    return [*blocks(entry, "tool_use"), *blocks(entry, "tool_result")]


if "-v" in sys.argv:
    sys.stdout.write("2.9.9 (Claude Code)\n")
    sys.exit()


def take(frame: dict[str, Any]) -> None:
    """Do what the SDK wants."""
    if frame["type"] == "control_request":
        done = {"subtype": "success", "request_id": frame["request_id"], "response": {}}
        say({"type": "control_response", "response": done})
    elif frame["type"] == "user":
        claude.connect()
        claude.turn(frame["message"]["content"])


claude = Claude()
for line in sys.stdin:
    take(json.loads(line))
    while claude.later:
        take(claude.later.pop(0))
