"""Which records come next? A range of the log in blocks, read ahead and parsed by threads."""
