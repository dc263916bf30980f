"""Data to pictures: the visualization manifest, Vega-Lite specs and the process that draws them.

Knows no notebooks and no kernels: what it is given is text, tables and names.
"""
