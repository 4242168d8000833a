"""A size is written the same way wherever one is asked for."""

from __future__ import annotations

import pytest

from reput.formats.errors import UsageError
from reput.streaming.settings.option_values import number_of_bytes, size


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("4096", 4096), ("64m", 64 << 20), ("64MiB", 64 << 20), ("64 m", 64 << 20), ("1GB", 1 << 30),
     (" 2t ", 2 << 40)],
)  # fmt: skip
def test_an_option_of_the_command_and_of_a_frame_take_the_same_sizes(text, wanted):
    assert size({"cap": text}, "cap") == wanted
    assert number_of_bytes(text) == wanted


@pytest.mark.parametrize("text", ["", "0", "m", "1.5g", "-1", "64q", "64 m m"])
def test_what_is_no_size_is_refused_by_both(text):
    with pytest.raises(
        UsageError, match=r"^cap='.*' is not a number of bytes such as 4096, 64m or 1g"
    ):
        size({"cap": text}, "cap")
    with pytest.raises(UsageError, match=r"^'.*' is not a number of bytes such as 4096, 64m or 1g"):
        number_of_bytes(text)
