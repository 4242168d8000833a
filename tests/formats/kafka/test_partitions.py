"""A key goes to the partition that Kafka's own clients choose."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_murmur2

from reput.formats.kafka.partitions import murmur2


@given(st.binary(max_size=40))
@settings(deadline=None)
def test_murmur2_is_that_of_kafkas_clients(key):
    data = np.frombuffer(key + b"\0", np.uint8)

    assert murmur2(data, 0, len(key)) == kafka_murmur2(key) & 0x7FFFFFFF
