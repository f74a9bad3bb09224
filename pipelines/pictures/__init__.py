"""The pictures stage: describes in words what a question needs from its picture."""
