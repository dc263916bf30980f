"""SLURM: allocations as hosts for kernels. Implements the engine's ``HostProvider``; ``assembly`` puts it in."""
