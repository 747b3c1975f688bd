"""Numbers and pictures for people."""
