"""Notebooks that nobody here wrote, and what nbclient makes of them."""
