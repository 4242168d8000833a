"""What becomes of what clients send? It is refused, but for messages that consumers send back."""
