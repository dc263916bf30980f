"""Jupyter servers as hosts for kernels and as places for notebooks. Implements ports of the engine; ``assembly`` puts it in."""
