"""Finds a store's commitlog: in the store, or where a setting or the user says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reput.formats.errors import StoreError, UsageError
from reput.formats.rocketmq import names

if TYPE_CHECKING:
    from reput.formats.rocketmq.broker import BrokerSettings

_DLEDGER_PREFIX = "dledger-"
_SETTING, _READ_ONLY = "storePathCommitLog", "readOnlyCommitLogStorePaths"


def commitlog_directories(store: Path, settings: BrokerSettings) -> list[Path]:
    """Return where the commitlog of a store stands.

    A setting that leads away from a `commitlog` directory of the store is refused. Such a setting
    comes with the broker.conf of the broker, and the store may be a copy: the live log would then
    answer for a backup.

    Args:
        store: a broker's storePathRootDir.
        settings: of its broker; `commitlog_told` comes before what its settings say.

    Raises:
        StoreError: no such store, or one whose log cannot be read; a directory that a setting names
            is not there.
        UsageError: the settings lead to another commitlog than the one in the store.
    """
    if not store.is_dir():
        raise StoreError(store, "no such directory", "Give a broker's storePathRootDir")
    own = store / names.COMMITLOG
    if settings.commitlog_told:
        told = [Path(path) for path in settings.commitlog_told]
        for path in told:
            if not path.is_dir():
                raise StoreError(path, "no such directory", "--commitlog names it")
        return told
    if settings.commitlog_paths:
        refuse_led_away(store, settings)
        return _by_setting(settings)
    if not own.is_dir():
        raise _no_commitlog(store)
    return [own]


def _no_commitlog(store: Path) -> StoreError:
    if any(entry.name.startswith(_DLEDGER_PREFIX) for entry in store.iterdir()):
        return StoreError(
            store,
            "a DLedger store (dledger-…): its log has entry headers between the records",
            "Only plain commitlogs can be dispatched",
        )
    return StoreError(
        store,
        "no commitlog directory is here",
        "Point --store at a broker's storePathRootDir, the directory that holds commitlog/",
    )


def refuse_led_away(store: Path, settings: BrokerSettings) -> None:
    """Refuse settings that lead to another commitlog than the one in the store.

    Raises:
        UsageError: names both, and the setting.
    """
    paths = [Path(path) for path in settings.commitlog_paths]
    own = store / names.COMMITLOG
    if not paths or settings.commitlog_told or not own.is_dir():
        return
    if own.resolve() not in {path.resolve() for path in paths}:
        raise UsageError(
            f"{_SETTING}={_named(settings)} in the broker's settings leads away from {own}, "
            f"which is there. Which one is meant? Take {_SETTING} out of the settings "
            f"to read {own}, or say "
            f"{' '.join(f'--commitlog {path}' for path in paths)} to read the "
            "other (in reput.toml and for a DataFrame: commitlog)"
        )


def unmounted(store: Path, settings: BrokerSettings, first: int) -> list[tuple[Path, str]]:
    """Return the read-only directories of a log that hold nothing, and what that may mean.

    A mount point without its volume is an empty directory, and what is on the volume would read as
    records that have expired.

    Args:
        store: a broker's storePathRootDir.
        settings: of its broker.
        first: physical offset where the log begins, as far as it is there.
    """
    if settings.commitlog_told or first <= 0:
        return []
    return [
        (
            path,
            (
                "this commitlog directory holds no file, and the log begins at physical offset "
                f"{first}: is its volume mounted? If all that was in it has expired, take it out "
                f"of {_READ_ONLY}"
            ),
        )
        for path in commitlog_directories(store, settings)
        if str(path) in settings.commitlog_read_only and not any(path.iterdir())
    ]


def _named(settings: BrokerSettings) -> str:
    """Return the value of storePathCommitLog."""
    written = [
        path for path in settings.commitlog_paths if path not in settings.commitlog_read_only
    ]
    return settings.path_splitter.join(written)


def _by_setting(settings: BrokerSettings) -> list[Path]:
    """Return the directories that the settings name.

    A broker makes those that it writes when it starts (`DefaultMessageStore#DefaultMessageStore`).
    """
    for text in settings.commitlog_paths:
        path = Path(text)
        if not path.is_dir():
            is_read_only = text in settings.commitlog_read_only
            setting = _READ_ONLY if is_read_only else _SETTING
            value = (
                settings.path_splitter.join(settings.commitlog_read_only)
                if is_read_only
                else _named(settings)
            )
            raise StoreError(
                path,
                "no such directory",
                f"{setting}={value} in the broker's settings names it. If the log is elsewhere "
                "here, take the setting out, or say where with --commitlog",
            )
    return [Path(path) for path in settings.commitlog_paths]
