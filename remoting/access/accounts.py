"""What may which account do? `PlainPermissionManager` of 4.9.8 and 5.1, and its files.

globalWhiteRemoteAddresses: [10.0.0.*]   # these need no account
accounts:
  - accessKey: reader-1                  # more than 6 characters each
    secretKey: "12345678"
    whiteRemoteAddress: 10.1.0.7         # this account needs no signature from there
    admin: false
    defaultTopicPerm: DENY               # topics and groups that have no line of their own
    defaultGroupPerm: SUB
    topicPerms: [orders=SUB, audit=DENY]
    groupPerms: [billing=SUB]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from reput.remoting.access import addresses, documents, permissions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from reput.remoting.access.addresses import Address, Addresses

LEAST_KEY = 7
_OF_FILES = {"globalWhiteRemoteAddresses", "accounts", "dataVersion"}
_OF_ACCOUNTS = {
    *("accessKey", "secretKey", "whiteRemoteAddress", "admin"),
    *("defaultTopicPerm", "defaultGroupPerm", "topicPerms", "groupPerms"),
}


class Account(NamedTuple):
    """An account.

    Attributes:
        key: `accessKey`, which requests name.
        secret: `secretKey`, which signs them.
        white: from where it needs no signature, and has every permission.
        is_admin: it may change topics and groups; see `Rules.refusal`.
        topic_perm: for topics that have no rule.
        group_perm: for groups that have no rule.
        rules: by topic, groups under `names.RETRY`.
    """

    key: str
    secret: bytes
    white: Addresses
    is_admin: bool
    topic_perm: int
    group_perm: int
    rules: Mapping[str, int]


class Rules(NamedTuple):
    """What all files say together.

    Attributes:
        white: addresses that need no account.
        accounts: by key.
        repeated: keys that several files have, or one several times; the first counts.
    """

    white: tuple[Addresses, ...] = ()
    accounts: Mapping[str, Account] = {}
    repeated: tuple[str, ...] = ()

    def is_white(self, address: Address | None) -> bool:
        """Tell whether requests from there need no account."""
        return any(each.has(address) for each in self.white)


def read(files: Iterable[tuple[Path, bytes]], *, is_typed: bool) -> Rules:
    """Return what files say, an account that is in several taken from the first.

    Args:
        files: path and bytes of each.
        is_typed: the broker is a 5.x; see `documents`.

    Raises:
        AccessError: a broker would not start with these files.
    """
    white: list[Addresses] = []
    accounts: dict[str, Account] = {}
    repeated = []
    for path, raw in files:
        source = documents.Source(path, is_typed)
        found = documents.read(source, raw) or {}
        _refuse_unknown(source, found, _OF_FILES)
        everybody = documents.listing(source, found.get("globalWhiteRemoteAddresses"))
        white += [_addresses(source, node) for node in everybody]
        for node in documents.listing(source, found.get("accounts")):
            account = _account(source, node)
            if account.key in accounts:
                repeated.append(account.key)
            else:
                accounts[account.key] = account
    return Rules(tuple(white), accounts, tuple(repeated))


def _account(source: documents.Source, node: Any) -> Account:
    found = documents.mapping(source, node)
    _refuse_unknown(source, found, _OF_ACCOUNTS)
    text = {name: documents.text(source, found.get(name)) for name in ("accessKey", "secretKey")}
    key, secret = text["accessKey"] or "", text["secretKey"] or ""
    if min(len(key), len(secret)) < LEAST_KEY:
        # Not the secret: what is said of a file stands in logs.
        why = f"accessKey {key!r} and its secretKey need {LEAST_KEY} characters or more"
        raise source.wrong(node, why)
    topic_perm, group_perm = (
        permissions.parse(documents.text(source, found.get(name)))
        for name in ("defaultTopicPerm", "defaultGroupPerm")
    )
    rules = [
        [documents.text(source, each) for each in documents.listing(source, found.get(name))]
        for name in ("topicPerms", "groupPerms")
    ]
    try:
        parsed = permissions.parse_rules(*rules)
    except ValueError as error:
        raise source.wrong(node, f"account {key!r}: {error}") from None
    white = _addresses(source, found.get("whiteRemoteAddress"))
    is_admin = documents.switch(source, found.get("admin"))
    raw = secret.encode("utf-8", "replace")
    return Account(key, raw, white, is_admin, topic_perm, group_perm, parsed)


def _addresses(source: documents.Source, node: Any | None) -> Addresses:
    found = documents.text(source, node)
    try:
        return addresses.parse(found)
    except ValueError as error:
        raise source.wrong(node, str(error)) from None


def _refuse_unknown(
    source: documents.Source, found: Mapping[str, Any], known: Iterable[str]
) -> None:
    """Refuse names that are not known, as brokers of 5.x do; those of 4.9 pass over them."""
    for name in found.keys() - set(known) if source.is_typed else ():
        raise source.wrong(found[name], f"{name!r} is not known, and brokers of 5.x refuse it")
