"""Other systems' tools over the same calls, for prompts and agents that were written for them.

Each is a plugin of the kind ``dialects``; ours are named in ``_own_dialects``. Each module is a table of translations: its tools call ours, decide nothing, and keep no state of their own.
"""
