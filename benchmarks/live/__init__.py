"""When does a message of a growing log have its entry? Alone, and beside the broker."""
