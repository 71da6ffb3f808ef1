"""Peers: the same work by the libraries that are installed."""
