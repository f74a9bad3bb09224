"""Dialogues worded anew by a chat model, checked, else left in the rules' words."""
