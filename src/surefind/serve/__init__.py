"""HTTP service of an index: a JSON API and a web page."""
