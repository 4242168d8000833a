"""An error that leaves its process as text comes back as what it was."""

from __future__ import annotations

import pickle
import traceback

import pytest

from reput.formats.errors import (
    KINDS,
    BodyError,
    ExpiredError,
    FileSizeError,
    FormatError,
    KafkaError,
    ReputError,
    StoreError,
    StuckError,
    UnreadableError,
    UsageError,
    about,
    recovered,
    store_of,
)

PLACE = (
    "/a path/with: signs. at byte 7: \u00e9\udc80/00",
    1 << 40,
    'no "magic"\nhere',
    "Restore it.",
)
# One of each class that has a code.
ERRORS = [
    *(kind("one line\nand another: [reput:store] {}") for kind in (ReputError, UsageError)),
    *(kind("gone") for kind in (ExpiredError, KafkaError)),
    StoreError(PLACE[0], "no commitlog", "Mount it"),
    *(kind(*PLACE) for kind in (FormatError, FileSizeError, BodyError, UnreadableError)),
    FormatError("/log", 4, "no magic"),
    StuckError("/output", 12.5),
]


def content(error):
    """
    Return all that counts of an error.
    """
    return type(error), str(error), error.fields


def raised(error) -> str:
    try:
        raise error
    except ReputError:
        return traceback.format_exc()


def test_each_class_has_a_code_of_its_own():
    assert {type(error) for error in ERRORS} == set(KINDS.values())
    assert all(kind.code == code for code, kind in KINDS.items())
    # Other processes may be of another version.
    assert sorted(KINDS) == [
        "body", "error", "expired", "file-size", "format", "kafka", "store", "stuck",
        "unreadable", "usage",
    ]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_traceback_carries_the_error(error):
    text = raised(error)

    assert content(recovered(f"Spark says\n{text}\tat of.a.stack(Trace)")) == content(error)
    assert content(pickle.loads(pickle.dumps(error))) == content(error)
    assert "[reput:" not in str(error).replace("[reput:store]", "")


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_the_store_that_an_error_is_about_comes_along(error):
    """
    A job of several stores counts the error for the one store, whatever its words are.
    """
    made = type(error)(*error.fields.values())
    with pytest.raises(ReputError) as caught, about("broker-a"), about("all"):
        raise made
    text = "".join(traceback.format_exception(caught.value))

    assert store_of(recovered(text)) == store_of(pickle.loads(pickle.dumps(made))) == "all"
    assert content(recovered(text)) == content(error)
    assert store_of(recovered(raised(error))) is None


def test_another_remedy_keeps_the_rest():
    """
    An export names its own option for a damaged place, and still says what is known of the place.
    """
    error = UnreadableError("/log", 4, "no magic", "Restore it. It is old.", "It is old.")
    with pytest.raises(UnreadableError), about("a"):
        raise error
    again = error.with_remedy("Skip it.")

    assert str(again) == "/log at byte 4: no magic. Skip it. It is old."
    assert (type(again), again.note, store_of(again)) == (UnreadableError, "It is old.", "a")


def test_a_message_can_be_sent_whatever_a_file_is_called():
    """
    Names of files may be any bytes; Python has those that are not UTF-8 as lone surrogates.
    """
    error = StoreError("/a\udc80", "gone", "Mount it")

    assert str(error) == "/a\\udc80: gone. Mount it"
    assert error.path == "/a\udc80"


def test_the_last_error_counts():
    """
    A cause is printed before the error that it led to.
    """
    text = raised(StoreError("/s", "gone", "Mount it")) + raised(FormatError("/log", 4, "bad"))

    assert content(recovered(text)) == content(FormatError("/log", 4, "bad"))


def test_a_subclass_arrives_as_the_class_whose_code_it_has():
    class NearlyError(FormatError):
        pass

    assert content(recovered(raised(NearlyError(*PLACE)))) == content(FormatError(*PLACE))


def test_notes_of_others_are_kept():
    error = UsageError("wrong")
    error.add_note("while reading")

    assert error.__notes__ == ['[reput:usage] {"message": "wrong"}', "while reading"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "reput.formats.errors.FormatError: /log at byte 4: bad.",
        '[reput:format] {"path": "/log", "posi',
        '[reput:format] {"path": "/log"}',
        '[reput:of-tomorrow] {"message": "new"}',
    ],
)
def test_what_is_not_whole_is_not_an_error_of_ours(text):
    assert recovered(text) is None
