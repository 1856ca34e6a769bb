"""The keys, certificates and trust of a process's TLS connections, and the identity in a peer's certificate.

Files are PEM, as Kafka's with `ssl.keystore.type=PEM`: the keystore holds a private key and its chain of certificates,
the truststore those of authorities. They are read again when they change: later connections use the new ones. A file
that cannot be used changes nothing, and is logged."""

import asyncio
import logging
import re
import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from replog.errors import ErrorCode, ReplogError
from replog.rpc.peer import Peer, Role

logger = logging.getLogger(__name__)


SCHEME = "replog"
LOOK_S = 1.0  # the least time between looks at the files
SOON = timedelta(days=30)  # so long before a certificate ends, every start, every exchange, and servers each day, warn
MAX_PEM_BYTES = 1 << 20
NAME_LENGTH = 250  # characters: an ACL may name it with its kind before it
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # TLS 1.2's; those of 1.3 are all sane
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_PRINCIPALS = {Role.BROKER: "Broker", Role.CONTROLLER: "Controller", Role.CLIENT: "User"}


@dataclass(frozen=True, slots=True)
class Identity:
    """An identity in a certificate: the URI `replog://<cluster-id>/<role>/<name>` among its alternative names."""

    cluster_id: str
    role: Role
    name: str

    @property
    def uri(self) -> str:
        return f"{SCHEME}://{self.cluster_id}/{self.role}/{quote(self.name, safe='')}"


def identity_of(uris: Iterable[str]) -> Identity:
    """Return the identity. Raises ValueError saying what is wrong with the names."""
    ours = [uri for uri in uris if uri.startswith(f"{SCHEME}://")]
    if len(ours) != 1:
        raise ValueError(
            f"its certificate has {len(ours)} names replog://<cluster-id>/<role>/<name>, and one was to come"
        )
    cluster_id, *path = ours[0].removeprefix(f"{SCHEME}://").split("/")
    if len(path) != 2 or path[0] not in _PRINCIPALS or not path[1] or not cluster_id:
        raise ValueError(f"its certificate says {ours[0][:200]!r}, which is not replog://<cluster-id>/<role>/<name>")
    name = unquote(path[1])
    if not name.isprintable() or len(name) > NAME_LENGTH:
        raise ValueError(
            f"its certificate says {ours[0][:200]!r}: a name has printable characters, {NAME_LENGTH} at most"
        )
    return Identity(cluster_id, Role(path[0]), name)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """`ssl.keystore.location`, `ssl.truststore.location` and `ssl.client.auth`."""

    keystore: Path | None  # None for a client that shows no certificate
    truststore: Path
    client_auth: str = "required"  # or requested, or none


@dataclass(frozen=True, slots=True)
class Material:
    """The content of the files when they were read."""

    stamps: tuple[object, ...]
    identity: Identity | None  # the keystore's
    ends: datetime | None  # the first end of its certificates
    server: ssl.SSLContext | None
    client: ssl.SSLContext
    keystore: bytes | None  # PEM
    roots: bytes
    authorities: frozenset[bytes]  # the certificates in `roots`, one by one


class Tls:
    """The TLS of one process, which follows its files."""

    def __init__(self, files: TlsFiles) -> None:
        """Read the files. Raises INVALID_CONFIG naming the setting, the file and what to do."""
        self.files = files
        self.material = _read(files)
        self.warn_of_end()
        self._looked = time.monotonic()
        self._looking: asyncio.Future[None] | None = None

    @property
    def server(self) -> ssl.SSLContext:
        """The context of accepted connections; a server has a keystore."""
        context = self.material.server
        assert context is not None
        return context

    def check_cluster(self, cluster_id: str) -> None:
        """Raise INCONSISTENT_CLUSTER_ID if our own certificate is of another cluster."""
        own = self.material.identity
        if own is not None and own.cluster_id != cluster_id:
            raise ErrorCode.INCONSISTENT_CLUSTER_ID.error(
                f"ssl.keystore.location={self.files.keystore} is of cluster {own.cluster_id!r}, and this is "
                f"{cluster_id!r}; its authority is made with: replog tls init DIR --cluster-id {cluster_id}"
            )

    def accepted(self, uris: Iterable[str], host: str) -> Peer:
        """Return the peer of a certificate of a trusted authority. Raises ValueError if the certificate is not ours."""
        identity = identity_of(uris)
        own = self.material.identity
        if own is not None and identity.cluster_id != own.cluster_id:
            raise ValueError(
                f"its certificate is of cluster {identity.cluster_id[:64]!r}, and this is {own.cluster_id!r}"
            )
        return Peer(f"{_PRINCIPALS[identity.role]}:{identity.name}", identity.role, host.partition("%")[0])

    def look(self) -> None:
        """Read the files if they have changed. It waits for a disk."""
        self._looked = time.monotonic()
        if stamps_of(self.files.keystore, self.files.truststore) == self.material.stamps:
            return
        try:
            material = _read(self.files)
            _check_same(self.material.identity, material.identity)
            self.material = material
            self.warn_of_end()
            logger.info("TLS: new certificates from %s are in use", self.files.keystore or self.files.truststore)
        except ReplogError as error:
            logger.warning("TLS: the certificates from before stay in use: %s", error.message)

    def warn_of_end(self) -> None:
        """Log a warning if the certificate ends soon, or has ended."""
        ends = self.material.ends
        if ends is not None and (left := ends - datetime.now(UTC)) < SOON:
            when = f"ends in {left.days} days" if left >= timedelta(0) else f"ended on {ends:%Y-%m-%d %H:%M} UTC"
            logger.warning("TLS: the certificate of %s %s; issue another", self.files.keystore, when)

    def look_soon(self) -> None:
        """Look in a thread, if the last look is a while ago; called for each connection."""
        if time.monotonic() - self._looked >= LOOK_S and (self._looking is None or self._looking.done()):
            self._looked = time.monotonic()
            self._looking = asyncio.get_running_loop().run_in_executor(None, self.look)


def _check_same(before: Identity | None, now: Identity | None) -> None:
    """Raise INVALID_CONFIG for a file of another cluster or role, or another broker's or controller's. Nobody would
    notice such a mistake before a connection is made."""
    if before is None or now is None:
        return
    renamed = replace(before, name=now.name) if before.role is Role.CLIENT else before
    if now != renamed:
        raise ErrorCode.INVALID_CONFIG.error(f"ssl.keystore.location says {now.uri}, and before it {before.uri}")


def stamps_of(*files: Path | None) -> tuple[object, ...]:
    """Return values that change when a file is replaced or rewritten."""

    def stamp(path: Path) -> object:
        try:
            stat = path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    return tuple(stamp(path) for path in files if path is not None)


def _read(files: TlsFiles) -> Material:
    stamps = stamps_of(files.keystore, files.truststore)
    roots = _pem("ssl.truststore.location", files.truststore)
    identity, ends, keystore = (None, None, None) if files.keystore is None else _keystore(files.keystore)
    try:
        server = _context(ssl.PROTOCOL_TLS_SERVER, files.keystore, roots) if files.keystore is not None else None
        if server is not None:
            modes = {"required": ssl.CERT_REQUIRED, "requested": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}
            server.verify_mode = modes[files.client_auth]
            server.num_tickets = 0  # nobody resumes a session: connections last
        return Material(
            stamps,
            identity,
            ends,
            server,
            _context(ssl.PROTOCOL_TLS_CLIENT, files.keystore, roots),
            keystore,
            roots,
            frozenset(b"".join(body.split()) for body in _CERTIFICATE.findall(roots)),
        )
    except (ssl.SSLError, OSError, ValueError) as error:
        raise _wrong("ssl.truststore.location", files.truststore, error) from None


def _keystore(path: Path) -> tuple[Identity, datetime, bytes]:
    from cryptography import x509  # imported only when there is something to read: it is slow
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    data = _pem("ssl.keystore.location", path)
    try:
        key = load_pem_private_key(data, None)
        chain = x509.load_pem_x509_certificates(data)
        own = chain[0]
        names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        identity = identity_of(names.get_values_for_type(x509.UniformResourceIdentifier))
        ends = min(each.not_valid_after_utc for each in chain)
        if ends < datetime.now(UTC):
            raise ValueError(f"its certificate ended on {ends:%Y-%m-%d %H:%M} UTC; issue another")
        if key.public_key() != own.public_key():
            raise ValueError("its first certificate is not that of its private key")
    except Exception as error:  # noqa: BLE001 (the library raises several kinds)
        raise _wrong("ssl.keystore.location", path, error) from None
    return identity, ends, data


def _pem(setting: str, path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_PEM_BYTES + 1)
    except OSError as error:
        raise _wrong(setting, path, error) from None
    if len(data) > MAX_PEM_BYTES or b"-----BEGIN " not in data:
        raise _wrong(setting, path, ValueError("it is no PEM file"))
    return data


def _wrong(setting: str, path: Path, error: Exception) -> ReplogError:
    remedy = "make one with: replog tls issue --help"
    if isinstance(error, PermissionError):
        remedy = "change its owner or its permissions, so that who runs this may read it"
    return ErrorCode.INVALID_CONFIG.error(f"{setting}={path}: {error}; {remedy}")


def _context(protocol: Any, keystore: Path | None, roots: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(["h2"])
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.load_verify_locations(cadata=roots.decode())
    if keystore is not None:
        context.load_cert_chain(keystore)
    return context
