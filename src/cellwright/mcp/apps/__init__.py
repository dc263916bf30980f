"""Apps in the chat (SEP-1865): what a host shows in place of a result's text, with buttons that call our tools.

``shell`` says which tool has which view and makes its HTML, ``views`` what a view shows; ``static`` has its script. A
client that does not say it shows apps is told nothing of them. See ADR 57.
"""
