"""`reput inspect …`: one file of a store as a table or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reput.formats.rocketmq import broker
from reput.stores.lazy import lazy_module
from reput.streaming.cli import completions, help_pages
from reput.streaming.cli.help_pages import App
from reput.streaming.cli.query_options import BODY_BYTES, BodyBytes, Conf, Json
from reput.streaming.cli.store_choice import Config, StoreName, of_file
from reput.streaming.settings.config import read_broker_conf
from reput.streaming.show.query_output import BodyMode, body_fields

if TYPE_CHECKING:
    from reput.formats.rocketmq.commitlog import Record
    from reput.streaming.show import console
else:
    console = lazy_module("reput.streaming.show.console")

app = App(
    help="Show what stands in one file of a store, byte for byte, damaged or not.",
)

File = Annotated[Path, typer.Argument(help="The file; for queues a directory shows all its files.")]
Limit = Annotated[
    int,
    typer.Option(
        "--limit", min=0, rich_help_panel=help_pages.SHOWING, help="Rows to show; 0: all."
    ),
]
Version = Annotated[
    str | None,
    typer.Option(
        "--broker-version",
        autocompletion=completions.versions,
        rich_help_panel=help_pages.READING,
        help=f"The broker that wrote it. [default: {broker.NEWEST}]",
    ),
]
_ROWS = 20


def _settings(
    version: str | None, conf: Path | None, config: Path | None, store_name: str | None
) -> broker.BrokerSettings:
    chosen = of_file(config, store_name, version, conf)
    if chosen is not None:
        return chosen.settings
    family = broker.NEWEST if version is None else version
    return broker.settings_of(family, read_broker_conf(conf) if conf else {})


def _one_more(limit: int) -> int | None:
    """Return how many rows to ask for, so that it shows whether there are more; None: all."""
    return limit + 1 if limit else None


@app.command()
def commitlog(
    file: File,
    first: Annotated[
        int, typer.Option("--from", help="Physical offset; the record there or the next one.")
    ] = 0,
    limit: Limit = _ROWS,
    body: Annotated[
        BodyMode,
        typer.Option(
            "--body",
            rich_help_panel=help_pages.SHOWING,
            help="Show bodies too, decompressed; auto: text, or hex if it is none.",
        ),
    ] = BodyMode.NONE,
    body_bytes: BodyBytes = BODY_BYTES,
    broker_version: Version = None,
    broker_conf: Conf = None,
    config: Config = None,
    store_name: StoreName = None,
    as_json: Json = False,
) -> None:
    """Show records with all their fields, and what stands where they end.

    Example: `reput inspect commitlog --limit 5 --body auto
    /data/rocketmq/store/commitlog/00000000000000000000`
    """
    from reput.stores.inspect.files import inspect_commitlog  # noqa: PLC0415 - numba is slow to import

    settings = _settings(broker_version, broker_conf, config, store_name)

    def shown_body(record: Record) -> dict[str, object]:
        if body == BodyMode.NONE:
            return {}
        # The row has the size as stored.
        fields = body_fields(record, body, body_bytes)
        return {name: value for name, value in fields.items() if name != "body_size"}

    shown = inspect_commitlog(file, settings, first, _one_more(limit), shown_body)
    console.print_inspection(shown, limit, as_json=as_json, as_blocks=True)


@app.command()
def consumequeue(
    file: File,
    first: Annotated[int, typer.Option("--from", help="Queue offset: number of an entry.")] = 0,
    limit: Limit = _ROWS,
    as_json: Json = False,
) -> None:
    """Show entries of a consume queue.

    Example: `reput inspect consumequeue /data/rocketmq/store/consumequeue/orders/0 --from 1000`
    """
    from reput.stores.inspect.files import inspect_consumequeue  # noqa: PLC0415

    console.print_inspection(
        inspect_consumequeue(file, first, _one_more(limit)), limit, as_json=as_json
    )


@app.command()
def ext(
    file: File,
    first: Annotated[int, typer.Option("--from", help="Byte position in the extension.")] = 0,
    limit: Limit = _ROWS,
    as_json: Json = False,
) -> None:
    """Show units of a consume queue extension.

    Example: `reput inspect ext /data/rocketmq/store/consumequeue_ext/orders/0`
    """
    from reput.stores.inspect.files import inspect_ext  # noqa: PLC0415

    console.print_inspection(inspect_ext(file, first, _one_more(limit)), limit, as_json=as_json)


@app.command()
def batch(
    file: File,
    first: Annotated[int, typer.Option("--from", help="Number of a unit.")] = 0,
    limit: Limit = _ROWS,
    as_json: Json = False,
) -> None:
    """Show units of a batch consume queue.

    Example: `reput inspect batch /data/rocketmq/store/batchconsumequeue/orders/0`
    """
    from reput.stores.inspect.files import inspect_batch  # noqa: PLC0415

    console.print_inspection(inspect_batch(file, first, _one_more(limit)), limit, as_json=as_json)


@app.command()
def index(
    file: File,
    first: Annotated[int, typer.Option("--from", help="Number of an item, or of a slot.")] = 1,
    limit: Limit = _ROWS,
    slots: Annotated[
        bool,
        typer.Option(
            "--slots", rich_help_panel=help_pages.SHOWING, help="Show used slots, not items."
        ),
    ] = False,
    broker_version: Version = None,
    broker_conf: Conf = None,
    config: Config = None,
    store_name: StoreName = None,
    as_json: Json = False,
) -> None:
    """Show the header and the items (or slots) of an index file.

    Example: `reput inspect index /data/rocketmq/store/index/20261121093000123 --limit 5`
    """
    from reput.stores.inspect.files import inspect_index  # noqa: PLC0415

    settings = _settings(broker_version, broker_conf, config, store_name)
    shown = inspect_index(file, settings, first, _one_more(limit), shows_slots=slots)
    console.print_inspection(shown, limit, as_json=as_json)


@app.command()
def checkpoint(file: File, as_json: Json = False) -> None:
    """Show the longs of a broker's checkpoint file.

    Example: `reput inspect checkpoint /data/rocketmq/store/checkpoint`
    """
    from reput.stores.inspect.files import inspect_checkpoint  # noqa: PLC0415

    console.print_inspection(inspect_checkpoint(file), 0, as_json=as_json)
