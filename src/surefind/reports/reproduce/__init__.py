"""Reproduction of the paper's tables."""
