"""`reput query id`: the message with an id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.stores.inspect.printable import printable
from reput.stores.query.by_key import KeyStatus
from reput.streaming.cli.asked import NO_INDEX, finish, open_store
from reput.streaming.endings.exit_codes import NOTHING, OK
from reput.streaming.settings.model.queries import IdOptions
from reput.streaming.show import query_output as out
from reput.streaming.source.no_such import no_such_topic

if TYPE_CHECKING:
    from reput.stores.query.by_id import IdAnswer


def by_id(options: IdOptions) -> None:
    """Find the message with an id: by the offset in it, or else as a UNIQ_KEY in the index.

    Example: `reput query id 0A00000100002A9F00000000000003E8 --store /data/rocketmq/store`
    """
    with open_store(options) as asked:
        answer = asked.by_id(options.message_id, options.topic)
        parts: dict[str, Any] = {}
        if answer.as_offset is not None:
            parts["as_offset_id"] = answer.as_offset._asdict()
        if answer.as_unique is not None and not answer.is_offset:
            parts["as_unique_id"] = answer.as_unique._asdict()
        found = answer.message
        fields = None
        if found is not None:
            fields = out.message_fields(found, options.body, options.body_bytes)
        by = "offset" if answer.is_offset else "unique id"
        if not options.as_json:
            _print_answer(answer, parts, fields, by)
        code = OK if found else NO_INDEX if answer.status == KeyStatus.NO_INDEX else NOTHING
        document = {
            "found_by": by if found else None,
            **parts,
            "problem": answer.problem,
            "message": fields,
        }
        missing = no_such_topic(asked, options.topic) if code == NOTHING else None
        finish(asked, document, code, as_json=options.as_json, missing=missing)


def _print_answer(
    answer: IdAnswer, parts: dict[str, Any], fields: dict[str, Any] | None, by: str
) -> None:
    for name, values in parts.items():
        shown = ", ".join(f"{k} {v}" for k, v in values.items())
        print(f"{name.replace('_', ' ')}: {shown}")
    if answer.problem is not None:
        print(f"by its offset: {printable(answer.problem)}")
    if answer.status not in {None, KeyStatus.FOUND}:
        print(f"as a unique id: {answer.status}")
    if fields is not None:
        print(f"found by its {by}")
        out.print_messages([fields])
