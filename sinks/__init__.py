"""Where does a batch go? Into consume queues, their extensions and index files, and to Kafka."""
