"""Certificates made here, and handshakes between two ends in memory."""

from __future__ import annotations

import ssl

import pytest

from reput.remoting.access.errors import AccessError
from reput.remoting.access.tls import ClientAuth, Mode, Renewed, TlsFiles, context, read_properties
from tests.remoting.access import certificates


@pytest.fixture(scope="module")
def certs(tmp_path_factory):
    return certificates.make(tmp_path_factory.mktemp("certs"))


def shake(server, client):
    """Return the server's side after a handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname="broker")
    for _ in range(6):
        for side in (theirs, ours):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    # A client of TLS 1.3 is done before the server has judged its certificate.
    ours.do_handshake()
    return ours


def client(certs, name=None):
    made = ssl.create_default_context(cafile=certs / "ca.pem")
    if name:
        made.load_cert_chain(certs / f"{name}.pem", certs / f"{name}.key")
    return made


class TestContext:
    def test_clients_find_the_certificate(self, certs):
        made = context(TlsFiles(certs / "server.pem", certs / "server.key"))

        assert shake(made, client(certs)).version() == "TLSv1.3"
        assert shake(made, client(certs, "client")).getpeercert() is None

    @pytest.mark.parametrize(
        "password", [{"password_file": "password"}, {"password": "geheim"}], ids=["file", "text"]
    )
    def test_a_key_with_a_password_is_opened(self, certs, password):
        given = {k: certs / v if k == "password_file" else v for k, v in password.items()}
        made = context(TlsFiles(certs / "server.pem", certs / "locked.key", **given))

        assert shake(made, client(certs)).version()

    def test_key_and_certificate_may_be_one_file(self, certs, tmp_path):
        both = tmp_path / "both.pem"
        both.write_bytes((certs / "server.pem").read_bytes() + (certs / "server.key").read_bytes())

        assert shake(context(TlsFiles(both)), client(certs)).version()

    def test_a_required_certificate_is_verified(self, certs):
        files = TlsFiles(
            certs / "server.pem",
            certs / "server.key",
            trusted=certs / "ca.pem",
            client_auth=ClientAuth.REQUIRE,
        )
        made = context(files)

        subject = shake(made, client(certs, "client")).getpeercert()["subject"]
        assert subject == ((("commonName", "client"),),)
        for name in (None, "stranger"):
            with pytest.raises(ssl.SSLError):
                shake(made, client(certs, name))

    def test_an_optional_certificate_is_verified_if_it_is_shown(self, certs):
        files = TlsFiles(
            certs / "server.pem",
            certs / "server.key",
            trusted=certs / "ca.pem",
            client_auth=ClientAuth.OPTIONAL,
        )
        made = context(files)

        assert shake(made, client(certs)).getpeercert() is None
        assert shake(made, client(certs, "client")).getpeercert()
        with pytest.raises(ssl.SSLError):
            shake(made, client(certs, "stranger"))

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"cert": "gone.pem"}, r"gone\.pem: No such file.*the one of this machine"),
            ({"key": None}, r"server\.pem has no key: give the key's file with --tls-key"),
            (
                {"cert": "password", "key": None},
                r"password is not a certificate with its key in .*password",
            ),
            ({"key": "client.key"}, r"client\.key is not the key of .*server\.pem"),
            ({"key": "password"}, r"server\.pem is not a certificate with its key in .*password"),
            ({"cert": "password"}, r"password is not a certificate"),
            ({"key": "locked.key"}, r"locked\.key has a password: give --tls-key-password-file"),
            ({"key": "locked.key", "password": "x"}, r"the password does not open .*locked\.key"),
            (
                {"client_auth": ClientAuth.REQUIRE},
                r"nothing says who signs them: give --tls-trusted",
            ),
            (
                {"client_auth": ClientAuth.REQUIRE, "trusted": "password"},
                r"password has no certificates",
            ),
        ],
    )
    def test_what_cannot_be_used_is_named_with_a_remedy(self, certs, changes, said):
        given = {"cert": "server.pem", "key": "server.key"} | changes
        of_files = {"cert", "key", "trusted"}
        paths = {k: v and certs / v for k, v in given.items() if k in of_files}
        with pytest.raises(AccessError, match=said):
            context(TlsFiles(**given | paths))


class TestProperties:
    @staticmethod
    def write(tmp_path, certs, **changes):
        """Write a file as a broker has it; a name of two words has _ for its dots."""
        given = {
            "tls.test.mode.enable": "false",
            "tls.server.certPath": certs / "server.pem",
            "tls.server.keyPath": certs / "locked.key",
            "tls.server.keyPassword": "geheim",
            "tls.server.authClient": "true",
            "tls.server.trustCertPath": certs / "ca.pem",
            "tls.server.need.client.auth": "require",
        } | {name.replace("_", "."): value for name, value in changes.items()}
        path = tmp_path / "tls.properties"
        path.write_text("".join(f"{k}={v}\n" for k, v in given.items() if v is not None))
        return path

    def test_a_brokers_file_is_used_as_it_is(self, certs, tmp_path):
        found = read_properties(self.write(tmp_path, certs))

        assert found.mode is Mode.PERMISSIVE
        assert shake(context(found), client(certs, "client")).getpeercert()
        with pytest.raises(ssl.SSLError):
            shake(context(found), client(certs, "stranger"))

    def test_a_mode_may_stand_in_it(self, certs, tmp_path):
        enforcing = self.write(tmp_path, certs, tls_server_mode="enforcing")
        assert read_properties(enforcing).mode is Mode.ENFORCING
        assert read_properties(self.write(tmp_path, certs, tls_server_mode="disabled")) is None

    def test_a_broker_that_verifies_nobody_asks_for_nothing(self, certs, tmp_path):
        changes = {"tls_server_authClient": None, "tls_server_need_client_auth": "optional"}
        found = read_properties(self.write(tmp_path, certs, **changes))

        assert found.client_auth is ClientAuth.NONE
        assert shake(context(found), client(certs, "stranger")).version()

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"tls_test_mode_enable": None}, "makes a certificate that nobody knows"),
            ({"tls_server_certPath": None}, "needs tls.server.certPath"),
            ({"tls_server_authClient": "false"}, "lets every certificate in"),
            (
                {"tls_server_need_client_auth": "maybe"},
                "maybe is not one of none, optional, require",
            ),
            ({"tls_server_mode": "on"}, "on is not one of disabled, permissive, enforcing"),
        ],
    )
    def test_what_ours_cannot_do_is_refused(self, certs, tmp_path, changes, said):
        with pytest.raises(AccessError, match=said) as caught:
            read_properties(self.write(tmp_path, certs, **changes))

        assert "tls.properties" in str(caught.value)
        assert "geheim" not in str(caught.value)


class TestRenewing:
    def test_a_renewed_certificate_serves_the_next_connection(self, certs, tmp_path):
        for name in ("pem", "key"):
            (tmp_path / f"now.{name}").write_bytes((certs / f"server.{name}").read_bytes())
        renewed = Renewed(TlsFiles(tmp_path / "now.pem", tmp_path / "now.key"))
        before = renewed.context
        assert renewed.tick() is None
        assert renewed.context is before

        self.copy(certs / "client.pem", tmp_path).replace(tmp_path / "now.pem")
        assert "is not the key of" in renewed.tick()
        assert renewed.tick() is None
        assert renewed.context is before
        assert renewed.is_broken

        self.copy(certs / "client.key", tmp_path).replace(tmp_path / "now.key")
        assert renewed.tick() is None
        assert shake(renewed.context, client(certs)).version()
        assert renewed.context is not before
        assert not renewed.is_broken

    def test_a_file_that_is_gone_is_named_and_counts_again_once_it_is_back(self, certs, tmp_path):
        for name in ("pem", "key"):
            (tmp_path / f"now.{name}").write_bytes((certs / f"server.{name}").read_bytes())
        renewed = Renewed(TlsFiles(tmp_path / "now.pem", tmp_path / "now.key"))
        before = renewed.context
        (tmp_path / "now.key").rename(tmp_path / "away")
        assert renewed.tick() == f"{tmp_path / 'now.key'}: No such file or directory"
        assert renewed.tick() is None
        assert renewed.is_broken

        (tmp_path / "away").rename(tmp_path / "now.key")
        assert renewed.tick() is None
        assert not renewed.is_broken
        assert renewed.context is not before

    def test_a_password_that_is_no_password_leaves_what_was_in_force(self, certs, tmp_path):
        given = self.copy(certs / "password", tmp_path)
        renewed = Renewed(TlsFiles(certs / "server.pem", certs / "locked.key", password_file=given))
        before = renewed.context
        given.write_bytes(b"x" * 1025)

        assert f"{given}: a password has 1024 bytes at most" in renewed.tick()
        assert renewed.context is before

    @staticmethod
    def copy(path, folder):
        made = folder / "copy"
        made.write_bytes(path.read_bytes())
        return made
