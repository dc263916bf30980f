"""Has a server's kernels be forks, and holds the ports that it has chosen for one until that is gone.

Others on this machine choose ports, too. Jupyter looks for one that is free, lets go of it, and has the kernel take it
a second later. Where somebody else's kernel did so first, the server speaks with that one. A port that is bound, and not
listened on, is given to no one who takes any; a kernel that asks for it gets it, since both say that they share it.
"""

import sys

SERVERS = ("jupyter_server", "jupyterlab", "kernel_gateway", "jupyterhub.singleuser")


def hold_ports() -> None:
    import socket  # of servers alone, not of every process that they start

    from jupyter_client.connect import LocalPortCache  # the same

    held: dict[int, socket.socket] = {}

    def find_available_port(self: LocalPortCache, ip: str) -> int:
        holding = socket.socket()
        holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holding.bind((ip, 0))
        port: int = holding.getsockname()[1]
        held[port] = holding
        self.currently_used_ports.add(port)
        return port

    def return_port(self: LocalPortCache, port: int) -> None:
        self.currently_used_ports.discard(port)
        if port in held:
            held.pop(port).close()

    LocalPortCache.find_available_port = find_available_port
    LocalPortCache.return_port = return_port


if "-m" in sys.orig_argv and sys.orig_argv[sys.orig_argv.index("-m") + 1] in SERVERS:
    import forked_kernels  # beside this

    forked_kernels.begin()
    hold_ports()
