"""Other machines: jobs for a Dask cluster or a batch system, and the processes that do them there."""
