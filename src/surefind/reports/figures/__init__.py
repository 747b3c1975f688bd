"""Figures of the theory, of training, calibration and evaluation."""
