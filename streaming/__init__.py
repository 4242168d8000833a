"""Who calls whom, when? The Spark source, the dispatch of a batch, the job and the command."""
