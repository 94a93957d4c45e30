"""How loops are compiled by Numba: what Python calls, and what only compiled functions call.

A function that Python calls has a wrapper that takes its arguments out of Python objects. With a dozen arrays in each
of five tuples that takes longer to compile than most functions here, so those that are called from compiled functions
alone have none: called from Python, which tests do, they are plain Python. They are not kept on disk either, but in the
function that calls them. Numba's cache watches the file of that function alone: after a change in what it calls,
`find src -name "*.nb[ic]" -delete`, or old code keeps running.
"""

from numba import njit
from numba.extending import register_jitable

compiled = njit(nogil=True, cache=True, error_model="numpy")
inner = register_jitable(error_model="numpy", no_cfunc_wrapper=True)
inner_any_order = register_jitable(error_model="numpy", no_cfunc_wrapper=True, fastmath={"reassoc", "contract"})
inlined = njit(inline="always", error_model="numpy")  # before any type is known: for calls that cost more than the work
