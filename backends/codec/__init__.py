"""Audio codecs: Mimi, and Codec 2 with its own codebooks or learnt ones."""
