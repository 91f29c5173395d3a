"""The log on NATS JetStream."""

from foldlog.log.jetstream.log import JetStreamLog

__all__ = ["JetStreamLog"]
