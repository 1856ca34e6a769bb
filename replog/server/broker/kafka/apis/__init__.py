"""Kafka's APIs, a file for each: `serve(service, call)`. One without a file is not offered to clients."""
