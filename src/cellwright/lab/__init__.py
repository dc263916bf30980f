"""JupyterLab on a session's live kernel: a gateway that speaks to Lab's server, and what is said to that server.

Lab's requests become executions of the session, so they are queued, limited and recorded as all others. This room
translates; it owns no port (see the daemon), starts no process (see the command line) and no kernel (see the engine).
"""
