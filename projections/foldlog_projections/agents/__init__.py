"""Kinds of `store.agents`."""
