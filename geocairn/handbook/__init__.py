"""The handbook of operations: pages for readers, made from the operations themselves.

`pages` gives the text of an operation and of a theme, `pictures` a drawing of its example before and after, `examples`
runs the example. What always holds: nothing here is written by hand for one operation; a third party's operation gets
the same page as the project's own.
"""
