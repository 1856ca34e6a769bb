"""Every check of a replica's files that can be made offline: ours or Apache Kafka's; nothing is ever written.

`verify` in `paths` is the way in; the other modules are named for what they check.
"""
