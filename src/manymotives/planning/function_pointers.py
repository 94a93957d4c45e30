"""Calls by address: what is called is compiled once, and not again with every function that calls it.

Numba takes the code of called functions into their caller, all the way up, and optimises it there again. Between
planning and a sampler's outermost loop lie ten functions: called by address, they compile in a third of the time.
"""

from typing import Any

from numba import typeof, types
from numba.core import cgutils
from numba.extending import intrinsic


def address_of(function: Any, *examples: Any) -> int:
    """Where the compiled form of a function lies that takes arguments such as these and answers nothing."""
    signature = tuple(typeof(example) for example in examples)
    function.compile(signature)
    made = function.overloads[signature]
    assert made.signature.return_type == types.none
    return int(made.library.get_pointer_to_function(made.fndesc.llvm_func_name))


@intrinsic
def call(typing_context, address, arguments):
    """Call what lies at an address found by `address_of`, with a tuple of arguments of the very same types.

    Nobody checks that they are: other types are read as if they were those.
    """
    kinds = tuple(arguments)

    def generate(context, builder, signature, values):
        convention = context.call_conv
        kind = convention.get_function_type(types.none, kinds)
        function = builder.inttoptr(values[0], kind.as_pointer())
        given = cgutils.unpack_tuple(builder, values[1])
        status, _ = convention.call_function(builder, function, types.none, kinds, given)
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return types.none(address, arguments), generate
