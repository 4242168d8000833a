"""How does a block become entries? Writers of queues, extensions, batch queues and index files."""
