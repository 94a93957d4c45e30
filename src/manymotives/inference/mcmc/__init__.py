"""Markov chains of the reward–policy model, compiled by Numba: one chain a thread."""
