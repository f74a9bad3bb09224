"""From what a user has said to the front-end's oracle: chat models asked again and again, their answers written."""
