"""Makes training batches from token rows: augmentation, sampling order, and a loader that can be resumed."""
