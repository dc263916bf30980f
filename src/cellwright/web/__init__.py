"""The page that people look at: sessions, live notebooks, chat, traces and verified notebooks, served by the daemon.

Translates requests into calls of the engine, the planner and the agent, and what they know into HTML. Decides nothing
about sessions; holds no state but who is signed in. ``site`` puts it together.
"""
