"""The log: the storage promise (`port`) and the backends that keep it."""
