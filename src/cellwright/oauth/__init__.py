"""Sign-in for HTTP clients: access tokens, what they let their bearers do, and who issues them.

Doors: ``scopes`` (what a tool needs), ``options`` (what the settings say), ``token_gate`` (what a listener asks about a
token), ``own_issuer`` (the authorization server for one user, whose questions the page shows), ``client_documents``
(clients that a document describes), ``grants`` (what it has granted). Knows no frontend and no engine. The bearer token
of a listener is not its matter (``daemon/_guard.py``).
"""
