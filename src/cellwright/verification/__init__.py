"""Verification: whether a notebook, run from the top in a clean kernel, puts out what it shows.

Above are the faces; below is the engine. It knows nothing of plans: any notebook can be verified.
"""
