"""The mixing stage: places clean clips on one clock, mixes two channels, and simulates the user's surroundings."""
