"""The ways of keeping an agent's state that are compared, one module each."""
