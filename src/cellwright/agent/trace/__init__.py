"""The trace of a run: every step with what went in, what came out, and what it took.

Knows nothing of patterns: it is told.
"""
