"""Put tf_lso where old programs look for the old names, and take it away again."""
