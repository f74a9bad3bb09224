"""The page on which people look into shards and runs, and talk to a model."""
