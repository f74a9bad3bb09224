"""Items to dialogues: what two people would say."""
