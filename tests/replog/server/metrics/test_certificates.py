"""When certificates end, as Prometheus is told."""

from cryptography import x509

from replog.rpc.peer import Role
from replog.server.metrics.certificates import certificate_metrics
from tests.replog.rpc.secured import NOW, Authority


def test_the_ends_of_what_is_in_use_are_shown_by_file(tmp_path):
    authority = Authority(tmp_path / "tls")
    tls = authority.tls(Role.BROKER, "1")
    samples = certificate_metrics([tls, authority.tls(Role.BROKER, "1")]).samples
    shown = {sample.labels["file"]: sample.value for sample in samples}
    assert len(samples) == len(shown) == 2
    for file in (tls.files.keystore, tls.files.truststore):
        (certificate,) = x509.load_pem_x509_certificates(file.read_bytes())
        assert shown.pop(str(file)) == certificate.not_valid_after_utc.timestamp() > NOW.timestamp()
    assert not shown


def test_of_two_authorities_the_one_that_is_good_for_longer_counts(tmp_path):
    """As while an authority is exchanged."""
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    both = old.truststore.read_bytes() + new.truststore.read_bytes()
    old.truststore.write_bytes(both)
    ends = [each.not_valid_after_utc.timestamp() for each in x509.load_pem_x509_certificates(both)]
    shown = {sample.labels["file"]: sample.value for sample in certificate_metrics([old.tls()]).samples}
    assert shown[str(old.truststore)] == max(ends)


def test_without_tls_there_is_nothing_to_show():
    assert certificate_metrics([]).samples == []
