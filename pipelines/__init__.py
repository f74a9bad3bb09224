"""The pipelines that make datasets of spoken dialogues with oracles from sources of questions."""
