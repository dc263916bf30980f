"""Connections: databases, object stores and APIs that the operator named, reached outside the sandbox.

A *broker* is a process that holds one connection on behalf of one session: it alone has the credentials and speaks to
the server, and answers typed requests with bounded data (``broker``; inside of it ``worker``). Above stands the engine,
which decides who may ask and writes the audit log (``engine.connections``). Nothing here knows sessions or kernels.

``known``    what the operator named, and where its credentials are
``broker``   one broker process, asked over its pipes
``digests``  what a server has to offer, in few tokens
"""
