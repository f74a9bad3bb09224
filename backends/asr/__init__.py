"""Speech recognition (ASR) of whole recordings."""
