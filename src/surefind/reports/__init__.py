"""Evaluation reports, figures, and reproduction of the paper's tables."""
