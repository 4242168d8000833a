"""Who writes a store? The driver, or a process beside an executor."""
