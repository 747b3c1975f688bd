"""Images: catalogs, decoding, preprocessing, loading in batches."""
