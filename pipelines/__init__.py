"""From items to shards: sources, script, speech, alignment, oracle, and what runs and stores them."""
