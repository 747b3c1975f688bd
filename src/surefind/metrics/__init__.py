"""Pure functions that say how good a retrieval is, and how honest its uncertainty."""
