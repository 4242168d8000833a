"""Which files are still there? Looks that never wait, for those that answer many."""
