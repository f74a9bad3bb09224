"""Token rows to batches: what befalls examples in training, their order, and how the order is gone on with."""
