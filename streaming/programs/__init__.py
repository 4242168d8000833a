"""What do programs of your own call? What `reput.rebuild` and `reput.verify` take and return."""
