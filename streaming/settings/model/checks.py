"""Options of `reput verify`, `handover`, `prepare` and `demo`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from reput.streaming.settings.model.option import Option
from reput.streaming.settings.model.saying import Json
from reput.streaming.settings.model.stores import AnyVersion, StoreOptions


@dataclass(frozen=True, kw_only=True)
class CheckOptions(StoreOptions):
    """Options of `reput verify` and `reput handover`."""

    any_version: AnyVersion = False
    as_json: Json = False


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """`reput prepare` has none of its own."""


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """Options of `reput demo`."""

    seconds: Annotated[float, Option(unit="seconds", least=1.0, help="How long to write.")] = 15.0
    rate: Annotated[int, Option(unit="records a second", least=1, help="Records a second.")] = 2000
    directory: Annotated[
        Path | None, Option(help="Leave the store and the output here to look at.")
    ] = None
    as_json: Json = False
