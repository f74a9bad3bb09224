"""Back-ends: chat models, text-to-speech, aligners, speech recognition and codecs; `registry.py` lists them."""
