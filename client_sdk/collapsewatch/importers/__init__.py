"""Turns what trainers have written to disk into runs: one reader for each format, one sender for all.

A reader knows files and nothing of the network; the sender knows the network and nothing of formats. Both
speak in `Step`.
"""
