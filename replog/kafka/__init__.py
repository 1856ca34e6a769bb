"""Kafka's protocol as bytes and values: messages, their codec, and the APIs and versions that are served."""
