"""An index behind HTTP: a JSON API, and a page to look at."""
