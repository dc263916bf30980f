"""Jupyter servers, gateways and hubs, as hosts for kernels and as places for notebooks.

Implements the engine's ``HostProvider`` and ``DocumentMirror``, which ``assembly`` puts in, and the launcher that hosts
load (``launcher``): kernels are asked for by HTTP, heard over a WebSocket, ended or let go there.
"""
