"""What a front-end says when it runs freely, and how near that comes to what its oracle told it."""
