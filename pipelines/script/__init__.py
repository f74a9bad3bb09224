"""The script stage: makes dialogues, as two people would speak, from items."""
