"""Where does sending resume? Positions kept in Kafka, and what was sent before them."""
