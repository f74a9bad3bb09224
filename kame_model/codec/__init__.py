"""Learning codebooks from a dataset's own speech, and measuring what a codec does to it."""
