"""Chat models: one client for all requests, and the engines that serve them."""
