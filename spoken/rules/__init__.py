"""The rules that read what stands at one place of a text: numbers, units, money, chemistry, words."""
