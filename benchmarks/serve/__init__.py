"""How fast does `reput serve` answer? Beside a real broker, on the same store."""
