"""`reput inspect …`: one file of a store as a table or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.rocketmq import broker
from reput.streaming.cli.store_choice import of_file
from reput.streaming.settings.config import read_broker_conf
from reput.streaming.settings.model.choices import BodyMode
from reput.streaming.settings.model.inspections import (
    BatchOptions,
    ExtOptions,
    FileOptions,
    IndexOptions,
    LogOptions,
    QueueOptions,
)
from reput.streaming.show.query_output import body_fields

if TYPE_CHECKING:
    from reput.formats.rocketmq.commitlog import Record
    from reput.streaming.settings.model.inspections import ByBroker


def commitlog(options: LogOptions) -> None:
    """Show records with all their fields, and what stands where they end.

    Example: `reput inspect commitlog --limit 5 --body auto
    /data/rocketmq/store/commitlog/00000000000000000000`
    """
    from reput.stores.inspect.files import inspect_commitlog
    from reput.streaming.show.inspections import print_inspection

    settings = _settings(options)

    def shown_body(record: Record) -> dict[str, object]:
        if options.body == BodyMode.NONE:
            return {}
        # The row has the size as stored.
        fields = body_fields(record, options.body, options.body_bytes)
        return {name: value for name, value in fields.items() if name != "body_size"}

    limit = options.limit
    shown = inspect_commitlog(options.file, settings, options.first, _one_more(limit), shown_body)
    print_inspection(shown, limit, as_json=options.as_json, as_blocks=True)


def consumequeue(options: QueueOptions) -> None:
    """Show entries of a consume queue.

    Example: `reput inspect consumequeue /data/rocketmq/store/consumequeue/orders/0 --from 1000`
    """
    from reput.stores.inspect.files import inspect_consumequeue
    from reput.streaming.show.inspections import print_inspection

    shown = inspect_consumequeue(options.file, options.first, _one_more(options.limit))
    print_inspection(shown, options.limit, as_json=options.as_json)


def ext(options: ExtOptions) -> None:
    """Show units of a consume queue extension.

    Example: `reput inspect ext /data/rocketmq/store/consumequeue_ext/orders/0`
    """
    from reput.stores.inspect.files import inspect_ext
    from reput.streaming.show.inspections import print_inspection

    shown = inspect_ext(options.file, options.first, _one_more(options.limit))
    print_inspection(shown, options.limit, as_json=options.as_json)


def batch(options: BatchOptions) -> None:
    """Show units of a batch consume queue.

    Example: `reput inspect batch /data/rocketmq/store/batchconsumequeue/orders/0`
    """
    from reput.stores.inspect.files import inspect_batch
    from reput.streaming.show.inspections import print_inspection

    shown = inspect_batch(options.file, options.first, _one_more(options.limit))
    print_inspection(shown, options.limit, as_json=options.as_json)


def index(options: IndexOptions) -> None:
    """Show the header and the items (or slots) of an index file.

    Example: `reput inspect index /data/rocketmq/store/index/20261121093000123 --limit 5`
    """
    from reput.stores.inspect.files import inspect_index
    from reput.streaming.show.inspections import print_inspection

    settings = _settings(options)
    more = _one_more(options.limit)
    shown = inspect_index(options.file, settings, options.first, more, shows_slots=options.slots)
    print_inspection(shown, options.limit, as_json=options.as_json)


def checkpoint(options: FileOptions) -> None:
    """Show the longs of a broker's checkpoint file.

    Example: `reput inspect checkpoint /data/rocketmq/store/checkpoint`
    """
    from reput.stores.inspect.files import inspect_checkpoint
    from reput.streaming.show.inspections import print_inspection

    print_inspection(inspect_checkpoint(options.file), 0, as_json=options.as_json)


def _settings(options: ByBroker) -> broker.BrokerSettings:
    version, conf = options.broker_version, options.broker_conf
    chosen = of_file(options.config, options.store_name, version, conf)
    if chosen is not None:
        return chosen.settings
    family = broker.NEWEST if version is None else version
    return broker.settings_of(family, read_broker_conf(conf) if conf else {})


def _one_more(limit: int) -> int | None:
    """Return how many rows to ask for, so that it shows whether there are more; None: all."""
    return limit + 1 if limit else None
