"""May this request be answered? `PlainPermissionManager#validate` of 4.9.8 and 5.1.

A broker asks in this order: an address that needs no account; an account; an address from which the
account needs no signature; the signature; an account that is an admin; permissions. It judges
requests of every kind, before it looks at what they ask.

======================== ============================= =====================================
                         4.9                           5.x
======================== ============================= =====================================
an admin                 is held to its own topicPerms may do everything
                         and groupPerms, if it has any
`SEND_BATCH_MESSAGE`     needs no permission           needs PUB
a rule that denies       "No default permission for …" "No permission for …"
======================== ============================= =====================================

The answer is `SYSTEM_ERROR` with the exception as its remark. `NO_PERMISSION` is what ACL 2.0
answers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from reput.formats.rocketmq.names import RETRY
from reput.remoting.access import accounts, addresses, files, permissions, signatures
from reput.remoting.reading.answer import Answer
from reput.remoting.wire.codes import ResponseCode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reput.remoting.access.accounts import Account, Rules
    from reput.remoting.names.release import Release
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command

LOG = logging.getLogger("reput")
_OF_SETTING = {"event": "setting"}

_EXCEPTION = "org.apache.rocketmq.acl.common.AclException"


class Reports(Protocol):
    """What is told of an ACL; see `streaming.observe`."""

    def refused(self, reason: str) -> None:
        """Count a request that was refused.

        Args:
            reason: `account`, `signature`, `admin`, `permission` or `request`.
        """

    def acl_read(
        self, accounts: int, repeated: Sequence[str] = (), error: str | None = None
    ) -> None:
        """Say what is in force now.

        Args:
            accounts: how many.
            repeated: keys of accounts that are there again; the first of each counts.
            error: why the newest files are not in force, but those before.
        """


class Unreported:
    """Reports nothing."""

    def refused(self, reason: str) -> None:
        """Count nothing."""

    def acl_read(
        self, accounts: int, repeated: Sequence[str] = (), error: str | None = None
    ) -> None:
        """Say nothing."""


class _RefusedError(Exception):
    """A request that is refused: its kind for counters, and the broker's text."""

    def __init__(self, reason: str, text: str | None) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text


class Open:
    """Refuses nothing: a store that nobody guards."""

    may_pass: None = None

    def check(self, request: Command, channel: Channel) -> Answer | None:
        """Allow it."""

    def tick(self) -> None:
        """Do nothing."""


class Access:
    """The ACL of a broker, read again when its files change."""

    def __init__(self, place: Path, release: Release, reports: Reports | None = None) -> None:
        """Read the files.

        Args:
            place: a file, or the broker's `conf`.
            release: whose broker it judges like.
            reports: what is told of it.

        Raises:
            AccessError: a broker would not start with them.
            OSError: they are not there.
        """
        self._place = place
        self._is_5 = release.is_5
        self._reports = reports or Unreported()
        self._rules: Rules
        self._renewal = files.Renewal(place, lambda: files.listed(place), self._take)
        self._say_rules()

    @property
    def accounts(self) -> int:
        """Return how many accounts are in force."""
        return len(self._rules.accounts)

    def check(self, request: Command, channel: Channel) -> Answer | None:
        """Return None for a request that may be answered, else the answer that refuses it."""
        try:
            self._judge(request, channel)
        except _RefusedError as refusal:
            self._reports.refused(refusal.reason)
            remark = _EXCEPTION if refusal.text is None else f"{_EXCEPTION}: {refusal.text}"
            return Answer(ResponseCode.SYSTEM_ERROR, remark)
        return None

    def may_pass(self, channel: Channel) -> bool:
        """Tell whether all that a connection asks is allowed, whatever it is."""
        return self._rules.is_white(addresses.of_peer(channel.peer))

    def tick(self) -> None:
        """Read the files again if they changed; broken ones leave what was in force.

        A broker looks each five seconds.
        """
        news = self._renewal.look()
        if news is None:
            return
        if news.error is not None:
            self._say_broken(news.error)
            return
        if news.was_broken:
            said = "%s can be used again; accounts that are in force: %d"
            LOG.info(said, self._place, self.accounts, extra=_OF_SETTING)
        self._say_rules()

    def _take(self, paths: list[Path]) -> None:
        self._rules = accounts.read(files.contents(paths), is_typed=self._is_5)

    def _say_rules(self) -> None:
        if not self._rules.accounts and not self._rules.white:
            # As of a broker; a copy onto a full disk leaves such a file.
            said = "%s has no account and no address: nobody may read"
            LOG.warning(said, self._place, extra=_OF_SETTING)
        self._reports.acl_read(self.accounts, self._rules.repeated)

    def _say_broken(self, error: str) -> None:
        # Here and not where it is counted: it is said where nothing is counted, too.
        said = "%s; the %d accounts before it stay in force"
        LOG.error(said, error, self.accounts, extra=_OF_SETTING)
        self._reports.acl_read(self.accounts, error=error)

    def _judge(self, request: Command, channel: Channel) -> None:
        address = addresses.of_peer(channel.peer)
        if self._rules.is_white(address):
            return
        given = request.fields or {}
        key = given.get(signatures.KEY)
        if key is None:
            raise _RefusedError("account", "No accessKey is configured")
        account = self._rules.accounts.get(key)
        if account is None:
            raise _RefusedError("account", f"No acl config for {key}")
        if account.white.has(address):
            return
        try:
            needed = permissions.needs(request, has_batches=self._is_5)
        except permissions.NeedsError:
            raise _RefusedError("request", None) from None
        signed = signatures.content(request)
        if not signatures.is_right(given.get(signatures.SIGNATURE), signed, account.secret):
            raise _RefusedError("signature", f"Check signature failed for accessKey={key}")
        if needed.get(permissions.TRACES) != permissions.PUB:
            self._judge_permissions(request.code, needed, account)

    def _judge_permissions(self, code: int, needed: dict[str, int], account: Account) -> None:
        if account.is_admin and (self._is_5 or not account.rules):
            return
        if code in permissions.FOR_ADMINS and not account.is_admin:
            text = f"Need admin permission for request code={code}, but accessKey="
            text += f"{account.key} is not"
            raise _RefusedError("admin", text)
        for name, wanted in needed.items():
            is_group = name.startswith(RETRY)
            owned = account.rules.get(name)
            is_default = owned is None
            if owned is None:
                owned = account.group_perm if is_group else account.topic_perm
            if not permissions.allows(wanted, owned):
                shown = name.removeprefix(RETRY) if is_group else name
                default = "default " if is_default or not self._is_5 else ""
                kind = "group" if is_group else "topic"
                raise _RefusedError("permission", f"No {default}permission for {kind}:{shown}")
