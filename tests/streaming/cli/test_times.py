"""Times: what a command prints can be typed back and means the same, in every zone."""

from __future__ import annotations

import json
import logging
import re
import time

import pytest

from reput.formats.errors import UsageError
from reput.streaming.settings.option_values import milliseconds
from reput.streaming.show.log_lines import log_to_stderr
from reput.streaming.show.moments import moment
from reput.streaming.source.options import parse

MS = 1_795_232_005_026


@pytest.fixture
def zone(monkeypatch, request):
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


zones = pytest.mark.parametrize(
    "zone",
    ["UTC", "Asia/Shanghai", "America/St_Johns", "Asia/Kathmandu", "Pacific/Kiritimati"],
    indirect=True,
)


@zones
@pytest.mark.parametrize("ms", [0, 1, MS, MS + 180 * 86_400_000, 99_999_999_999_999])
def test_what_is_printed_can_be_typed_back(zone, ms):
    """
    With its number, with its zone alone, and without: a time without a zone is a local one.
    """
    printed = moment(ms)
    (text,) = re.findall(r"\((.*)\)", printed)

    assert milliseconds("TIME", printed, is_local=True) == ms
    assert milliseconds("TIME", text, is_local=True) == ms
    assert milliseconds("TIME", text[: -len("+00:00")], is_local=True) == ms
    assert milliseconds("TIME", text.replace(" ", "T"), is_local=True) == ms


@pytest.mark.parametrize("zone", ["Europe/Berlin"], indirect=True)
@pytest.mark.parametrize("text", ["2026-10-25 02:30:00", "2026-03-29T02:30"])
def test_a_time_that_the_local_clock_shows_twice_or_never_is_refused(zone, text):
    """
    2:30 comes twice when the clock is put back, and not at all when it is put forward.
    """
    with pytest.raises(UsageError, match=r"which zone: \+0[12]00 or \+0[12]00"):
        milliseconds("--begin", text, is_local=True)
    assert milliseconds("--begin", f"{text}+01:00", is_local=True) > 0


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("1795232005", "seconds"),
        ("1795232005026000", "microseconds"),
        ("1795232005026000000", "nanoseconds"),
    ],
)
@pytest.mark.parametrize("is_local", [False, True])
def test_a_number_of_another_unit_is_refused_with_the_ms(text, unit, is_local):
    with pytest.raises(UsageError) as raised:
        milliseconds("TIME", text, is_local=is_local)

    message = (
        "TIME=%s is not a time in ms: in %s it would be 2026-11-21T03:33:25+00:00, which is %s"
    )
    assert message % (text, unit, "1795232005000") in str(raised.value)


@pytest.mark.parametrize("number", [0, 1, 10**8 - 1, 10**11, MS, 10**15 - 1, (1 << 63) - 1])
def test_other_numbers_are_ms(number):
    assert milliseconds("TIME", str(number)) == number


@pytest.mark.parametrize("option", ["startingTimestamp", "endingTimestamp", "startingOffsets"])
def test_a_data_frame_wants_the_zone(option):
    """
    A query is planned on one machine and written on another, and Spark shows times in its own zone.
    """
    text = "2026-11-21T03:33:25"
    prefix = "timestamp:" if option == "startingOffsets" else ""

    with pytest.raises(UsageError, match=f"{option}='{text}' names no zone"):
        parse({"path": "/a", option: prefix + text})
    (store,) = parse({"path": "/a", option: f"{prefix}{text}+08:00"}).stores
    found = store.ending if option.startswith("ending") else store.starting
    assert found.value == 1_795_203_205_000


@pytest.mark.parametrize("zone", ["Asia/Kathmandu"], indirect=True)
@pytest.mark.parametrize("as_json", [False, True])
def test_log_lines_name_their_zone(zone, as_json, monkeypatch, capsys):
    logger = logging.getLogger("reput")
    monkeypatch.setattr(logger, "handlers", [])
    level = logger.level
    log_to_stderr(as_json=as_json)
    logger.info("here")
    logger.setLevel(level)

    line = capsys.readouterr().err
    shown = json.loads(line)["time"] if as_json else line.removesuffix(" INFO here\n")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\+05:45", shown)
