"""How a language runs: kernels started, spoken to and ended. Orders no cells and keeps no history (see hosts).

``forkserver`` and ``kernelspecs`` start kernels; a ``kernel`` is a process (``processes``) and a connection to it
(``client``). Code that runs inside the kernel's process is the package ``cellwright_kernel``.
"""
