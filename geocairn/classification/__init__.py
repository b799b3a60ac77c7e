"""From an exception to its failure class: the look-up, and the tables of codes and types that it goes by."""

from geocairn.classification.lookup import Classification, classify, retry_after, s3_code, text_of

__all__ = ["Classification", "classify", "retry_after", "s3_code", "text_of"]
