"""The back-end's side of a session: requests to chat models while the user speaks, and their answers as oracles."""
