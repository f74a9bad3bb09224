"""Text to tokens, whole and streamed alike, and the training of a small vocabulary."""
