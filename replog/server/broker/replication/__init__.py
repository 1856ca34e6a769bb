"""Replication on the wire: the leader's streams, and the fetchers of followers."""
