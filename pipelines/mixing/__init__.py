"""Clean clips to one dialogue: utterances laid on the clock, two channels of sound, the user's surroundings."""
