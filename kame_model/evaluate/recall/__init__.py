"""`kame evaluate recall`: inference on held-out dialogues."""
