"""Where does a batch go? Writers of consume queues, their extensions and index files."""
