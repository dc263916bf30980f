"""What stands beside a notebook, a module for each panel: the values that it shows, and what a person may do there.

Asks the engine and the tools below it; which panels there are and in what order is ``notebook.panels``'s to say.
"""
