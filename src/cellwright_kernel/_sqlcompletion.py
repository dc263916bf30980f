"""The earlier name of ``sqlcells``: a kernel that was started before it went by this one loads it when it is first needed."""

from cellwright_kernel.sqlcells import complete

__all__ = ["complete"]
