"""The listeners of a broker, each with a name, an address and a protocol, as in Kafka (KIP-2, KIP-103).

One of them is for brokers among themselves. A broker answers clients with the addresses of the listener that they
use."""

import re
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from replog.config.properties import number_in

MAX_LISTENERS = 16
MAX_ADDRESS_LENGTH = 261  # a 255-character host, a colon, a port
PROTOCOLS = ("PLAINTEXT", "SSL")
NAME = re.compile(r"[A-Z0-9_-]{1,64}")
_HOST = re.compile(r"(?=.{1,254}:)([A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}\.?:")  # or IPv4
_OF_MANY = re.compile(r"(22[4-9]|23\d)\.[\d.]+$|255\.255\.255\.255$|\[ff")
_ZERO_ALIKE = re.compile(r"\b0x(?=0)|:ffff(?=:[0:.]+]$)")  # zero may be 0x0, or mapped into IPv6


@dataclass(frozen=True, slots=True)
class Listener:
    name: str
    bind: str  # host:port
    advertised: str  # others connect to it; empty: the bound address
    protocol: str  # one of PROTOCOLS


def named_addresses(value: str) -> dict[str, str]:
    """Parse `NAME://host:port,…`, or one `host:port`, whose name is empty. Raises ValueError."""
    named: dict[str, str] = {}
    parts = [part.strip() for part in value.split(",")]
    if len(parts) > MAX_LISTENERS:
        raise ValueError(f"{len(parts)} listeners; at most {MAX_LISTENERS}")
    for part in parts:
        before, separator, address = part.rpartition("://")
        name = before.upper()
        if separator and not NAME.fullmatch(name):
            raise ValueError(f"{before!r} is no name of a listener: letters, digits, '_' and '-', at most 64")
        if not separator and len(parts) > 1:
            raise ValueError(f"{part!r} has no name; with several, each is NAME://host:port")
        if name in named:
            raise ValueError(f"{name} is there twice")
        check_address(address)
        named[name] = address
    return named


def protocol_map(value: str) -> dict[str, str]:
    """Parse `NAME:PROTOCOL,…`, or nothing. Raises ValueError."""
    protocols: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in value.split(","))):
        name, _, protocol = (word.upper() for word in part.partition(":"))
        if not NAME.fullmatch(name) or protocol not in PROTOCOLS:
            raise ValueError(f"{part!r} is not NAME:PROTOCOL, with PLAINTEXT or SSL")
        protocols[name] = protocol
    return protocols


def listeners_of(listeners: str, advertised: str, protocols: str, default: str) -> tuple[Listener, ...]:
    """Return the listeners in the order of `listeners`. `default` is the protocol of names that say none.

    Raises ValueError for names that do not fit together, and for an address that nobody can connect to."""
    bound, known = named_addresses(listeners), protocol_map(protocols)
    public = named_addresses(advertised) if advertised else {}
    if bound.keys() == {""}:
        bound = {default: bound[""]}
    if public.keys() == {""} and len(bound) == 1:
        public = {next(iter(bound)): public[""]}
    for name in public:
        if name not in bound:
            raise ValueError(f"advertised.listeners names {name or 'none'!r}, which listeners={listeners} does not")
    return tuple(_listener(name, bind, public.get(name, ""), known, default) for name, bind in bound.items())


def _listener(name: str, bind: str, public: str, known: dict[str, str], default: str) -> Listener:
    check_reachable(bind, public)
    own = name if name in PROTOCOLS else default
    return Listener(name, bind, public, known.get(name, own))


def check_reachable(bind: str, public: str) -> None:
    """Raises ValueError for an address that nobody can connect to."""
    if not public and nobody_reaches(bind):
        raise ValueError(f"listeners={bind} is no address that others can connect to; set advertised.listeners too")
    if public and nobody_reaches(public):
        raise ValueError(f"advertised.listeners={public} is not one host's address; name this host as others know it")


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
    elif not _HOST.fullmatch(f"{host}:"):
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


def nobody_reaches(address: str) -> bool:
    """Return True if nobody can connect to it: 0.0.0.0 or [::], in any spelling, a multicast or broadcast address."""
    host = parse_address(address)[0].lower()
    return not _ZERO_ALIKE.sub("", host).strip("[]0.:") or bool(_OF_MANY.match(host))
