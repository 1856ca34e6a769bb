"""Reads numbers and addresses (`host:port`) of settings and messages."""

import re
from ipaddress import IPv6Address, ip_address

_NAME = re.compile(r"(?=.{1,254}:)([A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}\.?:")  # or IPv4


def number_in(text: str, most: int = 2**63 - 1) -> int | None:
    """Return the number from 0 to `most` that `text` is in ASCII digits; else None. `int` raises for 5,000 digits."""
    is_short = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    return number if is_short and (number := int(text)) <= most else None


def parse_address(value: str) -> tuple[str, int]:
    """Split `host:port`, port 0 to 65535. Raises ValueError saying what is wrong."""
    host, colon, port = value.rpartition(":")
    if not colon or not host:
        raise ValueError(f"{value!r} is not host:port")
    if (number := number_in(port, 65535)) is None:
        raise ValueError(f"{value[:100]!r}: port {port[:10]!r} is not a number from 0 to 65535")
    return host, number


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
