"""Where checkpoints live: a folder or an S3 bucket, with one behaviour.

`open_store` (module `opening`) gives a `CheckpointStore` for a folder or an `s3://` address. Beneath it lies the
small object store of `objects`, in two kinds; beside it leases, runs in flight, traces, decisions and the hand-over
in memory. Nothing is imported here, so that a look-up on a folder loads neither boto3 nor geopandas.
"""
