"""Ids taken apart as RocketMQ's own classes do; tests/oracle/queries.py compares them with those."""

from __future__ import annotations

import pytest

from reput.formats.rocketmq import messageid

IPV4 = "0A00000100002A9F00000000000003E8"
IPV6 = "FE800000000000000000000000000001" + "00002A9F" + "00000000000003E8"


class TestOffsetId:
    def test_parts_are_where_the_table_puts_them(self):
        assert messageid.parse_offset_id(IPV4) == ("10.0.0.1", 10911, 1000)
        assert messageid.parse_offset_id(IPV6) == ("fe80::1", 10911, 1000)

    @pytest.mark.parametrize("host", ["10.0.0.1:10911", "[fe80::1]:10911"])
    def test_an_id_is_made_as_it_is_read(self, host):
        text = messageid.offset_id(host, 1000)

        assert text in {IPV4, IPV6}
        assert messageid.parse_offset_id(text).store_host == host

    @pytest.mark.parametrize("text", ["", "order-17", IPV4[:-1], IPV4[:-1] + "G", IPV4 + "00"])
    def test_what_is_no_id_is_refused(self, text):
        assert not messageid.is_message_id(text)
        with pytest.raises(ValueError, match="32 or 56 hex digits"):
            messageid.parse_offset_id(text)

    def test_a_port_that_cannot_be_tells_a_unique_id(self):
        """
        This is how RocketMQ's tools tell the two kinds apart, whose length is the same.
        """
        with pytest.raises(ValueError, match="port"):
            messageid.parse_offset_id("7F000001BEEFC94C1142000000000000")


class TestUniqueId:
    def test_parts_are_where_the_table_puts_them(self):
        parsed = messageid.parse_unique_id("7F000001BEEF18B4AAC2000003E80007")

        assert parsed == ("127.0.0.1", 0xBEEF, 0x18B4AAC2, 1000, 7)
