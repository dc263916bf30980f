"""As the live documents of the system lane, for a browser that looks at one."""

from tests.support.servers.fixtures import collaboration_server, server_home
from tests.system.livedocs.conftest import _unhurried, open_here, relay_to, told

__all__ = ["_unhurried", "collaboration_server", "open_here", "relay_to", "server_home", "told"]
