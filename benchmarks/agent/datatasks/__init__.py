"""The data agent, and the kernels below it, held against public sets of data tasks.

``python benchmarks/agent`` is the way in (see README.md here). A set is read by an adapter, a file each, into the same
tasks; what becomes of them is told as rates, ratios and costs. Nothing of any set lies here but our own.
"""
