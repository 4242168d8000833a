"""Are the index files what the log gives? Items, slots and header, replayed in memory."""
