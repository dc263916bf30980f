"""Models: one table of what each can do, one adapter a provider, and a chain of them that is asked.

Knows nothing of notebooks, tools or patterns: messages go in, a message comes out.
"""
