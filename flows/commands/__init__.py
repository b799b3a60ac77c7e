"""The commands of the command line, by what they are for.

What always holds: importing a command loads click and nothing else of weight; a command loads what it needs when it
runs.
"""
