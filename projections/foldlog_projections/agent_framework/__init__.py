"""Kinds of the Microsoft Agent Framework adapter."""
