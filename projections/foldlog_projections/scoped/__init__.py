"""Kinds of `store.scoped`."""
