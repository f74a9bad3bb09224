"""Streaming recognisers: they write down what a caller says while it is being said."""
