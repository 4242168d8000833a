"""What an operator says, and what the broker had, decide what guards a store."""

from __future__ import annotations

import pytest

from reput.remoting.access.check import Access, Open
from reput.remoting.access.errors import AccessError
from reput.remoting.access.guard import guard
from reput.remoting.names.release import RELEASE_5_5

OPEN, GUARDED = ("broker.conf", {}), ("broker.conf", {"aclEnable": "true"})


@pytest.fixture
def acl(tmp_path):
    path = tmp_path / "plain_acl.yml"
    path.write_text("accounts: [{accessKey: reader-one, secretKey: '12345678'}]")
    return path


@pytest.mark.parametrize("broker_conf", [OPEN, GUARDED], ids=["open", "guarded"])
def test_an_acl_that_is_given_counts_whatever_the_broker_had(acl, broker_conf):
    found = guard(acl, broker_conf, RELEASE_5_5)

    assert isinstance(found, Access)
    assert found.accounts == 1


def test_without_an_acl_a_store_is_open_only_if_it_was_or_the_operator_says_so():
    assert isinstance(guard(None, OPEN, RELEASE_5_5), Open)
    assert isinstance(guard(None, GUARDED, RELEASE_5_5, is_open=True), Open)
    with pytest.raises(AccessError, match=r"broker\.conf has aclEnable=true"):
        guard(None, GUARDED, RELEASE_5_5)


def test_two_answers_to_one_question_are_refused(acl):
    with pytest.raises(AccessError, match="give one"):
        guard(acl, OPEN, RELEASE_5_5, is_open=True)


def test_a_file_that_is_not_there_is_named_with_its_option(tmp_path):
    with pytest.raises(AccessError, match=r"--acl .*gone\.yml: No such file.*give the broker's"):
        guard(tmp_path / "gone.yml", OPEN, RELEASE_5_5)
