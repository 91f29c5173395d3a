"""The life cycle of the embedded server, with real processes."""
