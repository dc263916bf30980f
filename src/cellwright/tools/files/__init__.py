"""Files by path, in the data directory or a session's, and what they hold as digests that are made apart."""
