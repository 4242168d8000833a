"""May this process send the store, and from where? Ownership, identity, renames."""
