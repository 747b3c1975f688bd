"""The paper's tables, row by row: its figures and ours side by side."""
