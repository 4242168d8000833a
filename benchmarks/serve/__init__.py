"""How fast `reput serve` answers stock clients, beside a real broker on the same store."""
