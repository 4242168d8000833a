"""Which options are there? Each one once: type, default, bounds, help, and where it is set."""
