"""The real ACL judges: RocketMQ's own classes and ours, with the same files and requests."""

from __future__ import annotations

import pytest

from tests.oracle.acl import judge

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("version", judge.VERSIONS)
def test_requests_are_judged_as_by_the_real_broker(version):
    """
    Files that brokers refuse, signatures of real clients, whole and changed, and every permission.
    """
    judge.build(version)
    differences, kinds = judge.compare(version, 60, 40, 7)

    assert differences == []
    allowed, refused = kinds["CHECK ok"], kinds["CHECK No default"]
    assert min(allowed, refused, kinds["CHECK Check signature"], kinds["CHECK Need admin"]) > 30


@pytest.mark.parametrize("version", judge.VERSIONS)
def test_a_signature_of_the_real_client_is_right_and_with_one_other_bit_wrong(version, tmp_path):
    judge.build(version)
    (tmp_path / "plain_acl.yml").write_text(
        "accounts: [{accessKey: reader-one, secretKey: 12345678, defaultTopicPerm: SUB}]"
    )
    access = judge.Access(tmp_path, judge.VERSIONS[version])
    request = judge.Command(
        12, version=513, fields={"topic": "Größe", "key": "\U0001f600"}, body=b"\x00body"
    )
    coded = judge.coded
    (signature,) = judge.ask(
        version, [f"SIGN\t{coded('reader-one')}\t{coded('12345678')}\t{judge.said(request)}"]
    )
    fields = {**request.fields, "AccessKey": "reader-one", "Signature": signature}
    signed = request._replace(fields=fields)
    flipped = chr(ord(signature[3]) ^ 1)
    others = [
        signed._replace(body=b"\x01body"),
        signed._replace(fields={**fields, "topic": "Grösse"}),
        signed._replace(fields={**fields, "Signature": signature[:3] + flipped + signature[4:]}),
    ]

    assert judge.ours(access, signed, "10.0.0.9:1") == "ok"
    for other in others:
        assert "Check signature failed" in judge.ours(access, other, "10.0.0.9:1")
