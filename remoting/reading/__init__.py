"""Which records answer a client? Pulls, offsets, times, keys and ids, with a broker's codes."""
