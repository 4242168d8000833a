"""How do messages leave as files? `reput export`."""
