"""The refresh of a dataset: plans parts, applies stages to them, compacts their outputs into shards, and publishes."""
