"""What do the bytes of one file say? `reput inspect` shows them."""
