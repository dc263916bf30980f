"""Notebooks as other people's files, and back. Knows documents and charts, and neither sessions nor kernels."""
