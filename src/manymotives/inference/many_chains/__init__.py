"""The same chains in JAX, hundreds or thousands at once: each file is the twin of one in `mcmc`."""
