"""Training of encoders: recipes, sampling, hard negatives, the training loop."""
