"""Kinds of `store.session`."""
