"""Searching: an index of images, and hits that say how sure they are."""
