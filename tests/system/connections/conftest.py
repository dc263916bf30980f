"""The servers that connections lead to, as ``kernel/connections`` has them."""

from tests.kernel.connections.conftest import object_store, postgresql

__all__ = ["object_store", "postgresql"]
