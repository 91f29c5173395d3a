"""Agents of frameworks as runs: killed at each of their calls, and taken up by another worker.

The scripted agent is a framework's part: a module with a durable function `agent(run, prompt)`,
whose model and tools ask a `Script` what they say and do. All else is here.
"""
