"""A small sender, in a process of its own: `python -m tests.bounds.sender URL`.

It sends until its input ends, and then prints the answers that it got and its slowest, in seconds.
"""

from __future__ import annotations

import json
import sys
import threading
import time

import httpx

from tests.otlp.support import Recorder, body

if __name__ == "__main__":
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    recorder = Recorder()
    recorder.agent_run("s")
    content, answers, slowest = body(recorder.spans), set[int](), 0.0
    with httpx.Client(timeout=60, headers={"content-type": "application/x-protobuf"}) as client:
        client.post(sys.argv[1], content=content)
        print("ready", flush=True)  # noqa: T201 - who started it waits for that
        while not (answers and ended.wait(0.03)):
            began = time.monotonic()
            answers.add(client.post(sys.argv[1], content=content).status_code)
            slowest = max(slowest, time.monotonic() - began)
    print(json.dumps([sorted(answers), slowest]))  # noqa: T201 - its answer
