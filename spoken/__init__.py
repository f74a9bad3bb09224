"""Text normalisation (written to spoken words) and filters of chat answers, for training data and live answers."""
