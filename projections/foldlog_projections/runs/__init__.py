"""Kinds of `store.run`."""
