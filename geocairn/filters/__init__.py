"""Filters: CQL2 text, the OGC's standard filter language, and its evaluation over a layer. No other code runs."""
