"""Which Spark runs it? Its session, its workers and its JVM."""
