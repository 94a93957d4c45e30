"""Calls by address: what is called is compiled once, and not again with every function that calls it.

Numba takes the code of called functions into their caller, all the way up. Planning is long, and ten functions lie
between it and a sampler's outermost loop: called by address, a sampler compiles in a third of the time.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def call(typing_context, address, numbers):
    """Call what lies at an address with a tuple of whole numbers."""

    def generate(context, builder, signature, arguments):
        values = cgutils.unpack_tuple(builder, arguments[1])
        kind = ir.FunctionType(ir.VoidType(), [value.type for value in values])
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), values)
        return context.get_dummy_value()

    return types.void(address, numbers), generate


@intrinsic
def pointer(typing_context, address):
    """An address as `numba.carray` wants it."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate
