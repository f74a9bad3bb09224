"""The engines behind the stations: chat models, text-to-speech, aligners, recognisers, codecs. `registry.py` lists them."""
