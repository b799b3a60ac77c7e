"""The flows, and the command line. Importing this package loads no Prefect: import the module of the flow."""
