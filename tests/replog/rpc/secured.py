"""Certificates for tests: an authority of a cluster, and what each kind of process shows."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from replog.local_cluster.authority import CA_KEY, init, issue
from replog.local_cluster.cluster_file import CA_CERTIFICATE
from replog.rpc.peer import Role
from replog.rpc.tls import Tls, TlsFiles

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
NOW = datetime.now(UTC)
LONG_AGO = NOW - timedelta(days=700)


class Authority:
    def __init__(self, directory: Path, cluster_id: str = CLUSTER) -> None:
        self.directory = directory
        init(directory, cluster_id)

    @property
    def truststore(self) -> Path:
        return self.directory / CA_CERTIFICATE

    def keystore(self, role: Role, name: str) -> Path:
        path = self.directory / f"{role}-{name}.pem"
        return path if path.exists() else issue(self.directory, role, name)

    def tls(self, role: Role = Role.CLIENT, name: str = "ann", client_auth: str = "required") -> Tls:
        """Of a process with a certificate of its own."""
        return self.shows(self.keystore(role, name), client_auth)

    def shows(self, keystore: Path | None, client_auth: str = "required") -> Tls:
        return Tls(TlsFiles(keystore, self.truststore, client_auth))

    def signs(self, uris: Sequence[str], end: datetime = NOW + timedelta(days=1)) -> Path:
        """A keystore that `replog tls issue` would not make."""
        key = ec.generate_private_key(ec.SECP256R1())
        signer = load_pem_private_key((self.directory / CA_KEY).read_bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(x509.load_pem_x509_certificate(self.truststore.read_bytes()).subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(LONG_AGO)
            .not_valid_after(end)
            .add_extension(
                x509.SubjectAlternativeName(
                    [x509.DNSName("localhost"), *(x509.UniformResourceIdentifier(uri) for uri in uris)]
                ),
                critical=True,
            )
            .sign(signer, SHA256())
        )
        path = self.directory / f"signed-{certificate.serial_number}.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.write_bytes(private + certificate.public_bytes(Encoding.PEM))
        return path
