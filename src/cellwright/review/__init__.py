"""Review: what makes a notebook slow, measured, and rewritten cells that were tried and found to do the same, faster.

Above are the faces; below is the engine. It knows nothing of plans or verification, and needs no model: one may be
asked through an ``Adviser``, and what it says is tried like everything else.
"""

from cellwright.review._findings import Hint, Kind, MeasuredCell, Offer, Review, Rewrite, Spot, data_of
from cellwright.review._pages import Case, Page
from cellwright.review._reviewer import MIN_SECONDS, Adviser, apply_rewrites, review
from cellwright.review.hints import HINTS, find_spots

__all__ = [
    "HINTS",
    "MIN_SECONDS",
    "Adviser",
    "Case",
    "Hint",
    "Kind",
    "MeasuredCell",
    "Offer",
    "Page",
    "Review",
    "Rewrite",
    "Spot",
    "apply_rewrites",
    "data_of",
    "find_spots",
    "review",
]
