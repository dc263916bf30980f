"""What runs inside a kernel's process: the fork server, the kernel it forks, and what the engine asks of it.

It runs on the user's interpreter, needs only the standard library and ipykernel, and imports nothing of
``cellwright``. The engine's side of the same conversation is ``cellwright.kernels``.
"""
