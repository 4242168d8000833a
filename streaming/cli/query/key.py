"""`reput query key`: messages by key, through the index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.formats.errors import UsageError
from reput.stores.query.by_key import MAX_HITS, MAX_UNIQUE_HITS, KeyKind, KeyStatus
from reput.stores.query.index_search import ALWAYS, Window
from reput.streaming.cli.asked import NO_INDEX, finish, open_store
from reput.streaming.endings.exit_codes import NOTHING, OK
from reput.streaming.settings.model.queries import KeyOptions
from reput.streaming.settings.option_values import milliseconds
from reput.streaming.show import query_output as out
from reput.streaming.show.moments import Moment
from reput.streaming.source.no_such import no_such_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.stores.query.by_key import KeyAnswer
    from reput.stores.query.message_store import MessageStore

# The command ends with the first of these that one of the keys has.
_CODES = {
    KeyStatus.NO_INDEX: NO_INDEX,
    KeyStatus.NOT_FOUND: NOTHING,
    KeyStatus.FOUND: OK,
}


def key(options: KeyOptions) -> None:
    """Find messages by key, through the index, as a broker finds them.

    Exit code 0 says that every key was found.

    Example: `reput query key order-17 --store /data/rocketmq/store --topic TopicTest`
    """
    if options.unique and options.tag:
        raise UsageError("--unique and --tag are two kinds of key: give one of them")
    kind = KeyKind.UNIQUE if options.unique else KeyKind.TAG if options.tag else KeyKind.ANY
    with open_store(options) as asked:
        window = _window(options)
        answers = asked.by_keys(
            options.topic,
            options.key,
            kind=kind,
            window=window,
            limit=options.limit,
            is_raw=options.raw,
        )
        documents = [_document(answer, options) for answer in answers]
        most = options.limit or (MAX_UNIQUE_HITS if kind == KeyKind.UNIQUE else MAX_HITS)
        for each, document in zip(options.key, documents, strict=True):
            # One hit more tells whether these are all.
            document["truncated"] = len(document["index_offsets"]) == most and (
                len(
                    asked.by_key(
                        options.topic, each, kind=kind, window=window, limit=most + 1
                    ).offsets
                )
                > most
            )
        _answer(asked, options, documents, most)


def _window(options: KeyOptions) -> Window:
    begin, end = options.begin, options.end
    return Window(
        ALWAYS.begin if begin is None else milliseconds("--begin", begin, is_local=True),
        ALWAYS.end if end is None else milliseconds("--end", end, is_local=True),
    )


def _document(answer: KeyAnswer, options: KeyOptions) -> dict[str, Any]:
    """Return what is shown of one key's answer."""
    return {
        "status": answer.status,
        "messages": [
            out.message_fields(m, options.body, options.body_bytes) for m in answer.messages
        ],
        "index_offsets": list(answer.offsets),
        "index_last_stored": Moment(answer.last_timestamp or None),
        "index_last_offset": answer.last_offset,
    }


def _answer(
    asked: MessageStore, options: KeyOptions, documents: Sequence[dict[str, Any]], most: int
) -> None:
    """Print the answers for all keys, and exit.

    Raises:
        typer.Exit: with the code.
    """
    statuses = {document["status"] for document in documents}
    worst = next(status for status in _CODES if status in statuses)
    if not options.as_json:
        if worst == KeyStatus.NO_INDEX:
            print(f"no index file is in {asked.index.directory}: nothing to look in")
        elif len(options.key) > 1:
            _print_keys(options.key, documents)
        else:
            _print_key(documents[0])
        if any(each["truncated"] for each in documents):
            print(f"the index has more than {most} hits; --limit takes more of them")
    document = documents[0]
    if len(options.key) > 1:
        named = zip(options.key, documents, strict=True)
        document = {"keys": [{"key": each, **answer} for each, answer in named]}
    was_found = KeyStatus.FOUND in statuses or worst == KeyStatus.NO_INDEX
    missing = None if was_found else no_such_topic(asked, options.topic)
    finish(asked, document, _CODES[worst], as_json=options.as_json, missing=missing)


def _print_key(answer: dict[str, Any]) -> None:
    messages = answer["messages"]
    other = len(answer["index_offsets"]) - len(messages)
    shared = f"; {other} hits are of other keys or gone" if other else ""
    print(f"{len(messages)} messages{shared}")
    out.print_messages(messages)


def _print_keys(keys: Sequence[str], answers: Sequence[dict[str, Any]]) -> None:
    """Print a row for each key, then the messages, each with its key."""
    rows = []
    for each, answer in zip(keys, answers, strict=True):
        messages = len(answer["messages"])
        other = len(answer["index_offsets"]) - messages
        rows.append(
            {"key": each, "status": answer["status"], "messages": messages, "other_hits": other}
        )
    out.print_table(rows)
    for each, answer in zip(keys, answers, strict=True):
        out.print_messages([{"key": each, **message} for message in answer["messages"]])
