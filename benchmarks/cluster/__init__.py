"""Other machines: jobs for a Dask cluster or a batch system, and runs as such jobs."""
