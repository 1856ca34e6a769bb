"""A cluster's own authority for certificates, in a directory: all trust `ca.pem`, and `ca.key` signs certificates.

A certificate names its owner in a URI: `replog://<cluster-id>/<role>/<name>`. One file has its private key and itself,
as in Kafka's PEM keystores. Files are readable only by their owner, and are written atomically."""

import ipaddress
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from replog.config.properties import MAX_INT, number_in
from replog.errors import ErrorCode, ReplogError
from replog.local_cluster.cluster_file import CA_CERTIFICATE
from replog.log.files.opening import fsync_directory, put_in_place
from replog.rpc.peer import Role
from replog.rpc.tls import SCHEME, Identity

CA_KEY = "ca.key"
CA_DAYS, DAYS = 5 * 365, 365
LOCAL = ("localhost", "127.0.0.1", "::1")  # names that every certificate has
SKEW = timedelta(minutes=10)  # a new certificate is valid at once, also for clocks that are this much behind
_OTHER_USAGES = (
    *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("encipher_only", "decipher_only"),
)
_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def init(directory: Path, cluster_id: str) -> None:
    """Make the authority. Raises INVALID_REQUEST if there is one, or for an impossible id."""
    if not _CLUSTER_ID.fullmatch(cluster_id):
        raise _bad(f"cluster id {cluster_id!r}: choose up to 64 of the characters A-Z a-z 0-9 _ -")
    for name in (CA_KEY, CA_CERTIFICATE):
        if (directory / name).exists():
            raise _bad(f"{directory / name} is there already; all certificates hang on it: use another directory")
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject, names = _subject(f"replog {cluster_id}"[:64]), [x509.UniformResourceIdentifier(f"{SCHEME}://{cluster_id}")]
    certificate = _certificate(subject, subject, key, key, now, now + timedelta(days=CA_DAYS), names)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write(directory / CA_KEY, _private(key))
    _write(directory / CA_CERTIFICATE, certificate)


def issue(directory: Path, role: Role, name: str, hosts: Sequence[str] = (), *, replace: bool = False) -> Path:
    """Make the keystore of one process or user, `<role>-<name>.pem`; `hosts` are names and addresses besides `LOCAL`.

    Raises INVALID_REQUEST without an authority, for an impossible name, or, unless `replace`, if the file exists."""
    if role is Role.BROKER and (number_in(name, MAX_INT) is None or str(int(name)) != name):
        raise _bad(f"broker {name!r}: a broker's certificate is for its node.id, a number")
    if not _NAME.fullmatch(name):
        raise _bad(f"name {name[:100]!r}: choose up to 64 of the characters A-Z a-z 0-9 _ . -")
    path = directory / f"{role}-{name}.pem"
    if path.exists() and not replace:
        raise _bad(f"{path} is there already; --replace puts a new one in its place")
    ca_key, ca = _authority(directory)
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    identity = Identity(_cluster_id(directory, ca), role, name)
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if role is not Role.CLIENT:  # otherwise a client could pose as a server
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
    names = [x509.UniformResourceIdentifier(identity.uri), *map(_host, dict.fromkeys((*LOCAL, *hosts)))]
    end = min(now + timedelta(days=DAYS), ca.not_valid_after_utc)
    more = x509.ExtendedKeyUsage(usages), x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    certificate = _certificate(_subject(name), ca.subject, key, ca_key, now, end, names, more)
    _write(path, _private(key) + certificate)
    return path


def cluster_id_of(directory: Path) -> str:
    """Return the cluster id that the authority has. Raises INVALID_REQUEST if there is no authority."""
    return _cluster_id(directory, _authority(directory)[1])


def _authority(directory: Path) -> tuple[Any, x509.Certificate]:
    try:
        key = load_pem_private_key((directory / CA_KEY).read_bytes(), None)
        return key, x509.load_pem_x509_certificate((directory / CA_CERTIFICATE).read_bytes())
    except (OSError, ValueError) as error:
        raise _bad(f"{directory} has no authority for certificates: {error}; make one: replog tls init DIR") from None


def _cluster_id(directory: Path, ca: x509.Certificate) -> str:
    try:
        names = ca.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return str(names.get_values_for_type(x509.UniformResourceIdentifier)[0]).removeprefix(f"{SCHEME}://")
    except (x509.ExtensionNotFound, IndexError):
        raise _bad(f"{directory / CA_CERTIFICATE} names no cluster; make another: replog tls init DIR") from None


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: Any,
    signer: Any,
    begin: datetime,
    end: datetime,
    names: Sequence[x509.GeneralName],
    more: Sequence[x509.ExtensionType] = (),
) -> bytes:
    """Return the certificate of a key in PEM; one that signs itself is an authority's."""
    signs = signer is key
    usage = x509.KeyUsage(
        digital_signature=not signs, key_cert_sign=signs, crl_sign=signs, **dict.fromkeys(_OTHER_USAGES, False)
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - SKEW)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=signs, path_length=0 if signs else None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    for extension in more:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(signer, SHA256()).public_bytes(Encoding.PEM)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise _bad(f"--host {host!r} is neither a name in ASCII nor an address") from None


def _private(key: Any) -> bytes:
    pem: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem


def _write(path: Path, content: bytes) -> None:
    try:
        beside = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(beside, "wb") as file:
            os.fchmod(beside, 0o600)
            file.write(content)
        put_in_place(path)
        fsync_directory(path.parent)
    except OSError as error:
        raise _bad(f"cannot write {path}: {error}") from None


def _bad(message: str) -> ReplogError:
    return ErrorCode.INVALID_REQUEST.error(message)
