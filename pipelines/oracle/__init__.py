"""The oracle stage: what a back-end would have answered at each moment of the question."""
