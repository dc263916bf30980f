"""The daemon: engine and faces in one process that outlives its clients, and the way to it.

The composition root: nothing else builds an engine and faces for clients. ``pump``, ``connect``, ``paths`` and
``handshake`` run on the client's side and need only the standard library; import from the modules, this one is empty so
that they stay quick.
"""
