"""Questions that come with a picture: what they need from it, in words."""
