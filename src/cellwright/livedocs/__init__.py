"""Notebooks that lie on a Jupyter server and that people may have open: read, edited and merged with what they do.

Knows documents and a server's address; sessions, which it is for, stand above (see ``jupyter.mirrors``).
"""
