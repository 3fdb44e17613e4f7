"""Text as it comes, in pieces; segments ready for synthesis out. `front_end.py` is the way in."""
