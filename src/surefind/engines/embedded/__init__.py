"""An index in a folder: SQLite keeps the rows, a mapped file the vectors, faiss searches them."""
