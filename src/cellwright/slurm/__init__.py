"""SLURM: allocations as hosts for kernels. Implements the engine's ``HostProvider``; ``assembly`` puts it in.

On the login side ``commands`` asks SLURM, ``states`` says what its answers mean, ``shapes`` and ``allocations`` make a
job and keep track of it, ``provider`` chooses one for a kernel, ``transport`` reaches its host. Inside the job runs the
same host as anywhere (``inside``).
"""
