"""The engines behind the stations: chat models, text-to-speech, aligners, recognisers; `registry.py` lists them."""
