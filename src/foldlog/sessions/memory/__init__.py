"""Short-term memory: recent turns of a conversation, and a summary of those before them."""
