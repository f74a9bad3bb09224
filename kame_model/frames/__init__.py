"""Tokens on frames: the inner monologue, the oracle stream, a dialogue as one sequence, and batches of them."""
