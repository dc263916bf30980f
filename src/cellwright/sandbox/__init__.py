"""What code may reach: files, network, packages, and the walls around them. Knows no kernels and no sessions."""
