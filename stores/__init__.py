"""What is there? Reading a store's directories: commitlog files, settings, verification, dumps."""
