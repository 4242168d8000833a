"""Are the queues what the log gives? Entry by entry, with what cannot be compared named."""
