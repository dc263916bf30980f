"""Modules that jobs submitted by an earlier version run by these names. They stand in ``cellwright.slurm`` now."""
