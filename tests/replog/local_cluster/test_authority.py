"""The files of an authority: what is in a certificate, for how long, and who may read it."""

import stat
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from replog.errors import ErrorCode, ReplogError
from replog.local_cluster.authority import CA_KEY, init, issue
from replog.local_cluster.cluster_file import CA_CERTIFICATE
from replog.rpc.peer import Role

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"


@pytest.fixture
def directory(tmp_path):
    init(tmp_path / "tls", CLUSTER)
    return tmp_path / "tls"


def _first(path):
    return x509.load_pem_x509_certificates(path.read_bytes())[0]


def _names(certificate, kind):
    return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(kind)


def test_an_authority_lives_five_years_and_may_sign_certificates_and_no_other_authority(directory):
    ca = _first(directory / CA_CERTIFICATE)
    assert timedelta(days=5 * 365) <= ca.not_valid_after_utc - ca.not_valid_before_utc <= timedelta(days=5 * 365 + 1)
    constraints = ca.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    assert _names(ca, x509.UniformResourceIdentifier) == [f"replog://{CLUSTER}"]


@pytest.mark.parametrize("role", [Role.BROKER, Role.CONTROLLER, Role.CLIENT])
def test_a_certificate_lives_a_year_and_says_whose_it_is_and_where(directory, role):
    certificate = _first(issue(directory, role, "7", ["broker-7.example.net", "10.0.0.7", "[fe80::7]"]))
    assert timedelta(days=365) <= certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc <= timedelta(days=366)
    assert _names(certificate, x509.UniformResourceIdentifier) == [f"replog://{CLUSTER}/{role}/7"]
    assert _names(certificate, x509.DNSName) == ["localhost", "broker-7.example.net"]
    assert list(map(str, _names(certificate, x509.IPAddress))) == ["127.0.0.1", "::1", "10.0.0.7", "fe80::7"]
    usages = set(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    serves = {ExtendedKeyUsageOID.SERVER_AUTH} if role is not Role.CLIENT else set()
    assert usages == {ExtendedKeyUsageOID.CLIENT_AUTH} | serves, "a client's certificate is no server's"
    certificate.verify_directly_issued_by(_first(directory / CA_CERTIFICATE))


def test_only_their_owner_may_read_the_files_and_nothing_half_written_stays(directory):
    issue(directory, Role.BROKER, "1")
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    assert files == dict.fromkeys((CA_KEY, CA_CERTIFICATE, "broker-1.pem"), 0o600)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_what_is_there_is_not_replaced_unless_that_is_said(directory):
    before = {path: path.read_bytes() for path in (directory / CA_KEY, issue(directory, Role.BROKER, "1"))}
    for again in (lambda: init(directory, CLUSTER), lambda: issue(directory, Role.BROKER, "1")):
        with pytest.raises(ReplogError, match="is there already") as refused:
            again()
        assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert {path: path.read_bytes() for path in before} == before
    renewed = issue(directory, Role.BROKER, "1", replace=True)
    assert renewed.read_bytes() != before[renewed]


def test_names_that_cannot_be_are_refused(directory, tmp_path):
    for role, name, says in (
        (Role.BROKER, "one", "node.id"),
        (Role.BROKER, "01", "node.id"),
        (Role.CLIENT, "../../etc/passwd", "name"),
        (Role.CLIENT, "", "name"),
        (Role.CONTROLLER, "x" * 65, "name"),
    ):
        with pytest.raises(ReplogError, match=says):
            issue(directory, role, name)
    with pytest.raises(ReplogError, match="replog tls init"):
        issue(tmp_path, Role.BROKER, "1")
    with pytest.raises(ReplogError, match="cluster id"):
        init(tmp_path / "other", "a/b")
    with pytest.raises(ReplogError, match="--host"):
        issue(directory, Role.BROKER, "1", ["bröker"])
    assert sorted(path.name for path in directory.iterdir()) == [CA_KEY, CA_CERTIFICATE]
