"""Antiphon's gateway: text in, audio out, over every protocol an agent's client speaks. Knows no torch."""
