"""The peers' servers, and three of nats-server: started for a run, gone after it."""
