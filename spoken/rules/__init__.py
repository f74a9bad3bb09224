"""Rules that read one kind of token each: numbers, units, money, chemistry, words."""
