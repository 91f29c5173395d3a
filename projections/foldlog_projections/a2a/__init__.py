"""Kinds of the A2A adapter."""
