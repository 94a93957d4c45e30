"""Many independent computations: jobs in, numbers out; by threads, processes, a Dask cluster or any executor."""

from manymotives.execution.compute import compute
from manymotives.execution.jobs import Job, Unit, fingerprint_of, random_seed
from manymotives.execution.runner import WorkerPool, Workers, cores

__all__ = ["Job", "Unit", "WorkerPool", "Workers", "compute", "cores", "fingerprint_of", "random_seed"]
