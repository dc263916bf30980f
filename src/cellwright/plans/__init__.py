"""Plans: TODOs that the engine carries out step by step, with checks, bounded repairs and a report where it stops.

Above is whoever makes and drives a plan (MCP, command line, agents); below is the engine, which knows nothing of plans.
"""
