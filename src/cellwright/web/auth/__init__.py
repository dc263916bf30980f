"""Who gets in: signing in by a token or a one-time link, the cookie afterwards, and whether the page itself asks."""
