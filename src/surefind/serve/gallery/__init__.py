"""What the page shows of a gallery: pictures, how vague they are, a map, what to try."""
