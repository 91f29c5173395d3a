"""Servers that the tests run against, started and stopped by their fixtures."""
