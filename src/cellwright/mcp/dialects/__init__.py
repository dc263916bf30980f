"""Other systems' tools over the same calls, for prompts and agents that were written for them.

Each module is a table of translations: its tools call ours, decide nothing, and keep no state of their own.
"""
