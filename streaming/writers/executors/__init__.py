"""How is a store written beside an executor? By a process, to which Spark's tasks carry orders."""
