"""Written text to spoken words, and what of a chat model's answer is said: for training data and live answers alike."""
