"""geocairn: chains of geoprocessing steps on Prefect that resume where they failed.

This package is the core: plan, fingerprint, checkpoint, gate, failure, trace and the decision of what to reuse. It
imports no Prefect, and geopandas, pyproj, pyarrow or boto3 only when a function that needs them runs.
"""

__version__ = "0.1.0"
