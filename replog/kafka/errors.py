"""The codec raises this."""


class BadFrame(ValueError):
    """Bytes that are no message of their API and version; the message says why."""
