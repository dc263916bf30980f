"""Confines code: files, network, packages, and the tiers of isolation. Knows no kernels and no sessions."""
