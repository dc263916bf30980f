"""Cellwright: the notebook computer for AI agents."""

__version__ = "0.1.0.dev0"
