"""A refresh of a dataset: parts planned, stages applied to them, their outputs made shards and published."""
