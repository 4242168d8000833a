"""docs/access.md: its example is a file that both families take, and does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reput.remoting.access.check import Access
from reput.remoting.names.release import RELEASE_4_9, RELEASE_5_5
from reput.remoting.wire.command import Command
from tests.remoting.access.test_check import Peer, pull, remark, signed

PAGE = (Path(__file__).parents[3] / "docs" / "access.md").read_text("utf-8")


@pytest.fixture(params=[RELEASE_4_9, RELEASE_5_5], ids=["4.9", "5.5"])
def access(request, tmp_path):
    (example,) = re.findall(r"```yaml\n(.+?)```", PAGE, re.DOTALL)
    (tmp_path / "plain_acl.yml").write_text(example, "utf-8")
    return Access(tmp_path, request.param)


def reader(code, **fields):
    return signed(code, key="billing-reader", secret="00123456789", **fields)


def test_the_example_lets_in_whom_its_comments_say(access):
    assert remark(access, Command(28), Peer("10.20.0.7:1")) is None
    assert (
        remark(access, Command(28, fields={"AccessKey": "operations"}), Peer("10.0.3.9:1")) is None
    )
    assert remark(access, Command(28, fields={"AccessKey": "operations"}), Peer("10.0.4.9:1"))
    assert remark(access, reader(11, topic="orders", consumerGroup="billing")) is None
    assert "topic:other" in remark(access, reader(11, topic="other", consumerGroup="billing"))
    assert "group:other" in remark(access, reader(11, topic="orders", consumerGroup="other"))
    assert remark(access, reader(310, b="invoices")) is None
    assert "topic:orders" in remark(access, reader(310, b="orders"))


def test_two_requests_read_with_any_account(access):
    assert remark(access, reader(361, topic="other", consumerGroup="other")) is None
    assert remark(access, reader(33, offset="0")) is None


def test_the_remarks_are_those_of_the_page(tmp_path):
    (tmp_path / "plain_acl.yml").write_text(
        "accounts: [{accessKey: reader-one, secretKey: '12345678', topicPerms: [audit=DENY]}]"
    )
    five, four = (
        Access(tmp_path, release).check(pull("audit"), Peer()).remark
        for release in (RELEASE_5_5, RELEASE_4_9)
    )
    assert f"`{five}`" in PAGE
    assert f"`{four.partition(': ')[2]}`" in PAGE
