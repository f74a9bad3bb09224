"""Forms of dialogues: how an exchange becomes turns of two people. `table.py` lists them."""
