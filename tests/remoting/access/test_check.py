"""What is refused, with which words, and what happens when files change."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from reput.remoting.access import documents, signatures
from reput.remoting.access.check import Access, Open
from reput.remoting.access.errors import AccessError
from reput.remoting.names.release import RELEASE_4_9, RELEASE_5_5
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.command import Command
from tests.remoting.wire.captured import captured

READER = """
accounts:
- accessKey: reader-one
  secretKey: "12345678"
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms: [orders=SUB, audit=DENY]
"""


class Peer(NamedTuple):
    peer: str = "10.0.0.1:4711"


NEAR = Peer()


class Reported:
    def __init__(self):
        self.reasons, self.read = [], []

    def refused(self, reason):
        self.reasons.append(reason)

    def acl_read(self, accounts, repeated=(), error=None):
        self.read.append((accounts, tuple(repeated), error))


@pytest.fixture
def reported():
    return Reported()


@pytest.fixture
def begin(tmp_path, reported):
    def begin(text, release=RELEASE_5_5):
        (tmp_path / "plain_acl.yml").write_text(text, "utf-8")
        return Access(tmp_path / "plain_acl.yml", release, reported)

    return begin


def signed(code, key="reader-one", secret="12345678", version=513, **fields):
    request = Command(code, version=version, fields={**fields, "AccessKey": key})
    content = signatures.content(request)
    signature = signatures.sign(content, secret.encode()).decode()
    return request._replace(fields={**request.fields, "Signature": signature})


def resigned(request):
    """Return a request of reader-one whose signature is right again."""
    signature = signatures.sign(signatures.content(request), b"12345678").decode()
    return request._replace(fields={**request.fields, "Signature": signature})


def pull(topic, group="billing"):
    return signed(RequestCode.PULL_MESSAGE, topic=topic, consumerGroup=group)


def remark(access, request, peer=NEAR):
    answer = access.check(request, peer)
    if answer is None:
        return None
    assert answer.code == ResponseCode.SYSTEM_ERROR
    return answer.remark.removeprefix("org.apache.rocketmq.acl.common.AclException: ")


class TestJudging:
    def test_an_account_reads_what_it_may_and_nothing_else(self, begin, reported):
        access = begin(READER)

        assert remark(access, pull("orders")) is None
        assert remark(access, pull("audit")) == "No permission for topic:audit"
        assert remark(access, pull("other")) == "No default permission for topic:other"
        assert reported.reasons == ["permission", "permission"]

    def test_requests_without_a_known_account_are_refused(self, begin, reported):
        access = begin(READER)

        assert remark(access, Command(RequestCode.HEART_BEAT)) == "No accessKey is configured"
        assert remark(access, signed(11, key="stranger")) == "No acl config for stranger"
        assert reported.reasons == ["account", "account"]

    def test_another_secret_is_refused(self, begin, reported):
        found = remark(begin(READER), signed(28, secret="12345679"))

        assert found == "Check signature failed for accessKey=reader-one"
        assert reported.reasons == ["signature"]

    def test_what_only_admins_may_is_refused(self, begin, reported):
        found = remark(begin(READER), signed(RequestCode.UPDATE_BROKER_CONFIG))

        assert found == "Need admin permission for request code=25, but accessKey=reader-one is not"
        assert reported.reasons == ["admin"]

    def test_a_heartbeat_needs_all_that_it_subscribes_to(self, begin, reported):
        access = begin(READER)

        def beat(*topics):
            data = ",".join(f'{{"topic":"{topic}"}}' for topic in topics)
            body = f'{{"consumerDataSet":[{{"groupName":"g","subscriptionDataSet":[{data}]}}]}}'
            return resigned(Command(34, fields={"AccessKey": "reader-one"}, body=body.encode()))

        assert remark(access, beat("orders")) is None
        assert remark(access, beat("orders", "audit")) == "No permission for topic:audit"
        body = b'{"consumerDataSet":[{"subscriptionDataSet":[{"topic":5}]}]}'
        number = beat("orders")._replace(body=body)
        assert remark(access, resigned(number)) == "No default permission for topic:5"
        bad = signed(RequestCode.HEART_BEAT)
        assert access.check(bad, Peer()).remark == "org.apache.rocketmq.acl.common.AclException"
        assert reported.reasons == ["permission", "permission", "request"]

    def test_white_addresses_need_no_account_and_those_of_an_account_no_signature(self, begin):
        account = READER + "  whiteRemoteAddress: 10.1.0.7\n"
        access = begin("globalWhiteRemoteAddresses: [10.2.0.*]\n" + account)
        unsigned = Command(11, fields={"AccessKey": "reader-one", "topic": "audit"})

        assert remark(access, Command(11), Peer("10.2.0.9:1")) is None
        assert remark(access, unsigned, Peer("10.1.0.7:1")) is None
        assert remark(access, unsigned, Peer("10.1.0.8:1")).startswith("Check signature failed")

    def test_admins_of_4_9_are_held_to_their_own_rules(self, begin):
        admin = READER + "  admin: true\n"

        assert remark(begin(admin), pull("audit")) is None
        found = remark(begin(admin, RELEASE_4_9), pull("audit"))
        assert found == "No default permission for topic:audit"

    def test_a_store_that_nobody_guards_answers_all(self):
        assert Open().check(Command(25), Peer()) is None

    @pytest.mark.parametrize("name", ["tools-4.9.7", "clients-4.9.8"])
    def test_what_real_tools_signed_is_let_in(self, name, begin):
        """
        mqadmin of 4.9 signs by default, with the keys of the `conf/tools.yml` that comes with it.
        """
        access = begin(
            "accounts: [{accessKey: rocketmq2, secretKey: 12345678, admin: true}]", RELEASE_4_9
        )
        frames = [each.command for each in captured(name) if not each.command.is_response]
        frames = [each for each in frames if "Signature" in (each.fields or {})]

        # Bodies are kept as far as they fit into the capture: requests without one are whole.
        answers = [remark(access, each) for each in frames if not each.body]
        assert answers
        assert set(answers) == {None}


class TestChanging:
    def test_a_file_that_changes_is_in_force_at_the_next_tick(self, begin, tmp_path, reported):
        access = begin(READER)
        (tmp_path / "plain_acl.yml").write_text(READER.replace("audit=DENY", "audit=SUB"))
        access.tick()

        assert remark(access, pull("audit")) is None
        assert reported.read == [(1, (), None), (1, (), None)]

    def test_a_broken_file_leaves_what_was_in_force_and_is_said_once(
        self, begin, tmp_path, reported, caplog
    ):
        access = begin(READER)
        (tmp_path / "plain_acl.yml").write_text("accounts: [{accessKey: short")
        for _ in range(3):
            access.tick()

        assert remark(access, pull("orders")) is None
        assert len(reported.read) == 2
        assert "plain_acl.yml, line 2 is not YAML" in reported.read[1][2]
        said = [each.event for each in caplog.records if "stay in force" in each.message]
        assert said == ["setting"]
        (tmp_path / "plain_acl.yml").write_text("accounts: []")
        access.tick()
        assert reported.read[2:] == [(0, (), None)]
        assert remark(access, pull("orders")) == "No acl config for reader-one"

    def test_a_file_that_is_gone_leaves_what_was_in_force(self, begin, tmp_path, reported):
        access = begin(READER)
        (tmp_path / "plain_acl.yml").unlink()
        access.tick()

        assert remark(access, pull("orders")) is None
        assert reported.read[1][2] == f"{tmp_path / 'plain_acl.yml'}: No such file or directory"

    @pytest.mark.parametrize("text", ["", "accounts: []\n", "globalWhiteRemoteAddresses: []\n"])
    def test_a_file_that_lets_nobody_in_is_in_force_and_this_is_said(
        self, begin, tmp_path, caplog, text
    ):
        access = begin(READER)
        (tmp_path / "plain_acl.yml").write_text(text)
        for _ in range(3):
            access.tick()

        assert remark(access, pull("orders")) is not None
        (said,) = (each.message for each in caplog.records)
        assert "nobody may read" in said

    def test_a_file_that_is_back_as_it_was_is_in_force_and_this_is_said_once(
        self, begin, tmp_path, reported, caplog
    ):
        caplog.set_level("INFO", "reput")
        access, path = begin(READER), tmp_path / "plain_acl.yml"
        access.tick()
        path.rename(tmp_path / "away")
        access.tick()
        (tmp_path / "away").rename(path)
        for _ in range(3):
            access.tick()

        assert reported.read[2:] == [(1, (), None)]
        gone, back = (each.message for each in caplog.records)
        assert gone == f"{path}: No such file or directory; the 1 accounts before it stay in force"
        assert back == f"{path} can be used again; accounts that are in force: 1"

    def test_a_file_that_is_made_readable_is_in_force(self, begin, tmp_path, monkeypatch, reported):
        """
        Nothing of it changes but who may read it.
        """
        access, path = begin(READER), tmp_path / "plain_acl.yml"
        path.write_text(READER.replace("audit=DENY", "audit=SUB"))
        with monkeypatch.context() as patch:

            def refuse(path):
                raise PermissionError(13, "Permission denied", str(path))

            patch.setattr(Path, "read_bytes", refuse)
            access.tick()
        assert reported.read[1][2] == f"{path}: Permission denied"
        access.tick()

        assert remark(access, pull("audit")) is None

    @pytest.mark.parametrize("loader", [documents._LOADER, yaml.SafeLoader])
    def test_what_is_not_utf_8_is_one_line(self, begin, tmp_path, monkeypatch, loader, caplog):
        monkeypatch.setattr(documents, "_LOADER", loader)
        access = begin(READER)
        (tmp_path / "plain_acl.yml").write_bytes(b"accounts: # \xff\n")
        access.tick()

        (said,) = (each.message for each in caplog.records)
        assert "plain_acl.yml at byte 12 is not YAML, a text in UTF-8: " in said
        assert "\n" not in said

    def test_a_file_that_is_put_in_place_of_another_is_seen(self, begin, tmp_path):
        """
        Kubernetes changes a ConfigMap by a link to other files, whose sizes and times may be equal.
        """
        access = begin(READER)
        before = (tmp_path / "plain_acl.yml").stat()
        other = tmp_path / "other"
        other.write_text(READER.replace("reader-one", "reader-two"))
        os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
        other.replace(tmp_path / "plain_acl.yml")
        access.tick()

        assert remark(access, pull("orders")) == "No acl config for reader-one"


class TestFiles:
    def test_a_brokers_conf_has_all_files_and_the_first_account_counts(self, tmp_path, reported):
        (tmp_path / "acl/deeper").mkdir(parents=True)
        (tmp_path / "acl/a.yml").write_text(READER)
        (tmp_path / "acl/deeper/b.yaml").write_text(READER.replace("reader-one", "reader-two"))
        (tmp_path / "acl/tools.txt").write_text("nothing of it")
        (tmp_path / "plain_acl.yml").write_text(READER.replace("audit=DENY", "audit=SUB"))
        access = Access(tmp_path, RELEASE_5_5, reported)

        assert remark(access, pull("audit")) == "No permission for topic:audit"
        assert reported.read == [(2, ("reader-one",), None)]

    def test_a_conf_without_an_acl_is_refused(self, tmp_path):
        with pytest.raises(AccessError, match=r"neither plain_acl\.yml nor"):
            Access(tmp_path, RELEASE_5_5)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("accounts: [{accessKey: short, secretKey: '12345678'}]", "line 1: accessKey 'short'"),
            ("accounts: {}", "line 1: expected a list"),
            ("- a", "line 1: expected names with values"),
            (READER + "  topicPerm: []\n", "line 8: 'topicPerm' is not known"),
            (READER.replace("orders=SUB", "orders"), "'orders', which is not a name, = and"),
            (READER + "  admin: perhaps\n", "line 8: expected true or false"),
            ("globalWhiteRemoteAddresses: [10.0.0]", "line 1: '10.0.0' is not an address"),
            ("a: 1\n---\nb: 2", "is not YAML"),
            ("[" * 5000, "nested too deeply|is not YAML"),
        ],
    )
    def test_what_a_broker_would_not_start_with_is_refused_with_its_place(self, text, said, begin):
        with pytest.raises(AccessError, match=said) as caught:
            begin(text)

        assert "12345678" not in str(caught.value)

    def test_texts_are_taken_as_each_family_takes_them(self, begin):
        """
        5.x knows that a secret is a text; 4.9 made a number of it before.
        """
        text = "accounts: [{accessKey: reader-one, secretKey: 0x1234567, admin: yes}]"
        number = str(0x1234567)

        assert remark(begin(text), signed(25, secret="0x1234567")) is None
        assert remark(begin(text, RELEASE_4_9), signed(25, secret=number, version=409)) is None

    def test_what_4_9_writes_in_a_way_of_its_own_is_to_be_quoted(self, begin):
        with pytest.raises(AccessError, match="line 1: put this value into quotes"):
            begin("accounts: [{accessKey: reader-one, secretKey: 1234567.5}]", RELEASE_4_9)

    @pytest.mark.parametrize("value", ["0x_", "0b_", "!!int abc", "!!bool abc", "1" * 5000])
    def test_a_value_that_is_not_of_its_kind_is_refused_with_its_line(self, begin, value):
        with pytest.raises(
            AccessError, match=r"line 1: this value cannot be read as (int|bool)"
        ) as refused:
            begin(f"accounts: [{{accessKey: abcdefg, secretKey: {value}}}]", RELEASE_4_9)

        assert value not in str(refused.value)

    @pytest.mark.parametrize("loader", [documents._LOADER, yaml.SafeLoader])
    def test_an_error_shows_no_secret(self, begin, monkeypatch, loader):
        """
        It stands in the log, and PyYAML's own text has the line that it cannot read.
        """
        monkeypatch.setattr(documents, "_LOADER", loader)
        for text in (
            'accounts:\n- {accessKey: reader-one, secretKey: "hidden-one" : }',
            "accounts:\n- {accessKey: reader-one, secretKey: 1234567.5}",
        ):
            with pytest.raises(AccessError, match="line 2") as caught:
                begin(text, RELEASE_4_9)
            assert "hidden-one" not in str(caught.value)
            assert "1234567" not in str(caught.value)

    def test_an_empty_file_lets_nobody_in(self, begin):
        assert remark(begin("# nothing\n"), pull("orders")) == "No acl config for reader-one"
