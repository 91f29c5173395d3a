"""Kinds of the Google ADK adapter."""
