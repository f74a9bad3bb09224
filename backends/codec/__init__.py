"""Audio codecs: Mimi, and the small `nano-mimi` that `kame codec train` makes of the same parts."""
