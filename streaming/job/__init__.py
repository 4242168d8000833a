"""Who calls whom, batch by batch? The streaming job."""
