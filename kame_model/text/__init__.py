"""The tokenizer, for complete and for streamed text, and the training of a small vocabulary."""
