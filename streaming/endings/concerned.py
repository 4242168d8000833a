"""Which store of a job an error is about, so that it is counted for that one and no other.

Where an error is raised on behalf of a store, `about` has it say so. What Spark hands on is a text:
there the path that it names tells.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from reput.formats.rocketmq import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reput.streaming.settings.config import StoreConfig

_MARK = "store_of_job"
# A path in a sentence ends with the sentence's own signs, or continues below a directory.
_PATH_ENDS = r"(?=[/\s:;,'\")]|\.?$|\. )"


@contextlib.contextmanager
def about(store: str) -> Iterator[None]:
    """Mark errors as being about a store of the job.

    Args:
        store: its name.
    """
    try:
        yield
    except BaseException as error:
        mark(error, store)
        raise


def mark(error: BaseException, store: str) -> None:
    """Mark an error as being about a store, unless it names one already."""
    vars(error).setdefault(_MARK, store)


def concerned(error: BaseException, configs: Mapping[str, StoreConfig]) -> list[str]:
    """Return the names of the stores that an error is about; none where nothing tells.

    Args:
        error: what ends a job, or what has been raised from that.
        configs: of the job's stores, by name.
    """
    each: BaseException | None = error
    while each is not None:
        if _MARK in vars(each):
            return [vars(each)[_MARK]]
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
    if isinstance(path, str | bytes):
        return Path(os.fsdecode(path)).absolute().is_relative_to(Path(place).absolute())
    return re.search(rf"(?<![\w./-]){re.escape(place)}{_PATH_ENDS}", str(error)) is not None
