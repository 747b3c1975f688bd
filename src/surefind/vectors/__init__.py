"""Uncertainty for vectors that someone else's model made."""
