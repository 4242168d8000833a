"""What is served to clients, where, and to whom? The command `reput serve`."""
