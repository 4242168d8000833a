"""Which store of a job an error is about, so that it is counted for that one and no other.

An error that is raised on behalf of a store says so (`formats.errors.about`), also after it has
come through Spark; or it is about a file, which tells. The words of its message do not.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from reput.formats.errors import store_of
from reput.formats.rocketmq import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reput.streaming.settings.config import StoreConfig


def concerned(error: BaseException, configs: Mapping[str, StoreConfig]) -> list[str]:
    """Return the names of the stores that an error is about; none where nothing tells.

    Args:
        error: what ends a job, or what has been raised from that.
        configs: of the job's stores, by name.
    """
    each: BaseException | None = error
    while each is not None:
        if (store := store_of(each)) is not None:
            return [store]
        each = each.__cause__
    found: dict[str, int] = {}
    for name, config in configs.items():
        longest = max((len(place) for place in _places(config) if _names(error, place)), default=0)
        if longest:
            found[name] = longest
    # A store below another one is meant where its own path is named.
    return [name for name, length in found.items() if length == max(found.values())]


def _places(config: StoreConfig) -> Iterator[str]:
    settings = config.settings
    logs = [Path(path) for path in settings.commitlog_told or settings.commitlog_paths]
    for path in (config.path, config.output, config.path / names.COMMITLOG, *logs):
        yield str(path)
        yield str(path.resolve())


def _names(error: BaseException, place: str) -> bool:
    path = error.filename if isinstance(error, OSError) else getattr(error, "path", None)
    if not isinstance(path, str | bytes):
        return False
    return Path(os.fsdecode(path)).absolute().is_relative_to(Path(place).absolute())
