"""The store for code that blocks."""
