"""From splits and a recipe to a trained encoder."""
