"""Forms of dialogues: how an exchange becomes turns of two speakers. `table.py` lists them."""
