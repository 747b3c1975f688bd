"""Pictures of the theory, of a run and of an evaluation."""
