"""Addresses as settings and messages have them: `host:port`."""

from ipaddress import ip_address


def parse_address(value: str) -> tuple[str, int]:
    """Split `host:port`, port 0 to 65535. Raises ValueError saying what is wrong."""
    host, colon, port = value.rpartition(":")
    if not colon or not host:
        raise ValueError(f"{value!r} is not host:port")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{value!r}: port {port!r} is not a number from 0 to 65535")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
