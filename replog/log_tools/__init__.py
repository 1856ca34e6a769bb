"""Offline, on the files of a stopped broker, ours or Apache Kafka's: verify, dump, survey."""
