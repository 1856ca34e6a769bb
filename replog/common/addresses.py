"""Reads addresses of settings and messages: `host:port`."""

import re
from ipaddress import IPv6Address, ip_address

_NAME = re.compile(r"(?=.{1,254}:)([A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}\.?:")  # or IPv4


def parse_address(value: str) -> tuple[str, int]:
    """Split `host:port`, port 0 to 65535. Raises ValueError saying what is wrong."""
    host, colon, port = value.rpartition(":")
    if not colon or not host:
        raise ValueError(f"{value!r} is not host:port")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{value!r}: port {port!r} is not a number from 0 to 65535")
    return host, int(port)


def check_address(value: str) -> tuple[str, int]:
    """Split an address as `parse_address` does, and require a host that can be connected to or listened on."""
    host, port = parse_address(value)
    if host.startswith("[") and host.endswith("]"):
        IPv6Address(host[1:-1])  # raises ValueError
    elif not _NAME.fullmatch(f"{host}:"):
        raise ValueError(
            f"{value[:100]!r} has no host that can be: write a name of letters, digits, '.', '-' and '_', or an "
            "address, of IPv6 in brackets"
        )
    return host, port


def is_loopback(host: str) -> bool:
    """Return True if only this machine reaches it."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def is_every_interface(address: str) -> bool:
    """Return True if the host is 0.0.0.0 or [::], in any spelling: one may bind to it, but never connect to it."""
    return not parse_address(address)[0].strip("[]0.:")
