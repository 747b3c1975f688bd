"""What speaks for a hit and what against it, before any label is known."""
