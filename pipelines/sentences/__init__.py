"""Makes single sentences in the assistant's voice: their texts, and clean speech with word timings."""
