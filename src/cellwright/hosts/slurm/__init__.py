"""SLURM as a place for hosts: allocations, and the host inside each of them.

On the login side ``commands`` asks SLURM, ``states`` and ``states`` say what its answers mean, ``shapes`` and
``allocations`` make a job, and ``allocations`` keeps track. Inside the job runs the same host as anywhere.
"""
