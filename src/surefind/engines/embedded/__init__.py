"""The default engine: a folder that survives kills, full disks and flipped bits, and faiss."""
