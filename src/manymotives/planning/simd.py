"""Sixteen float64 numbers that Numba treats as one: a vector register (or a few), for planning sixteen rewards at once.

Numba turns loops over a last axis of 16 into scalar code or guards them with aliasing checks; these few
intrinsics say what is meant, and LLVM maps them to whatever the machine has (AVX-512: two registers, AVX2: four,
NEON: eight). Sixteen, not eight, because the dependent steps of an elimination leave the arithmetic units waiting
unless two registers are in flight.

Arrays of lanes are C-contiguous float64 [rows, WIDTH], read and written a row at a time; `row` counts in lanes.
"""

import math
import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.typing.templates import ConcreteTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, register_model

WIDTH = 16
_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
_INTEGERS = ir.VectorType(ir.IntType(64), WIDTH)


class _LanesType(types.Type):
    def __init__(self):
        super().__init__(name=f"Lanes{WIDTH}")


_lanes = _LanesType()


@register_model(_LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, frontend_type):
        super().__init__(manager, frontend_type, _VECTOR)


def _data(context, builder, array_type, array):
    """Where an array's numbers begin; they must follow each other as C orders them."""
    if array_type.layout != "C":
        raise TypingError("lanes need C-contiguous arrays")
    return context.make_array(array_type)(context, builder, array).data


def _pointer(context, builder, array_type, array, row):
    data = _data(context, builder, array_type, array)
    element = builder.gep(data, [builder.mul(row, ir.Constant(row.type, WIDTH))])
    return builder.bitcast(element, _VECTOR.as_pointer())


@intrinsic
def load(typing_context, array, row):
    """The row-th WIDTH numbers of a contiguous array."""

    def generate(context, builder, signature, arguments):
        return builder.load(_pointer(context, builder, signature.args[0], *arguments), align=8)

    return _lanes(array, types.intp), generate


@intrinsic
def store(typing_context, array, row, value):
    """Overwrite the row-th WIDTH numbers of a contiguous array."""

    def generate(context, builder, signature, arguments):
        builder.store(arguments[2], _pointer(context, builder, signature.args[0], *arguments[:2]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, _lanes), generate


_SINGLE = ir.VectorType(ir.FloatType(), WIDTH)


def _single_pointer(context, builder, array_type, array, row):
    data = _data(context, builder, array_type, array)
    return builder.bitcast(builder.gep(data, [builder.mul(row, ir.Constant(row.type, WIDTH))]), _SINGLE.as_pointer())


@intrinsic
def load_single(typing_context, array, row):
    """The row-th WIDTH numbers of a contiguous array of float32, as float64."""

    def generate(context, builder, signature, arguments):
        found = builder.load(_single_pointer(context, builder, signature.args[0], *arguments), align=4)
        return builder.fpext(found, _VECTOR)

    return _lanes(array, types.intp), generate


@intrinsic
def store_single(typing_context, array, row, value):
    """Overwrite the row-th WIDTH numbers of a contiguous array of float32, rounded."""

    def generate(context, builder, signature, arguments):
        pointer = _single_pointer(context, builder, signature.args[0], *arguments[:2])
        builder.store(builder.fptrunc(arguments[2], _SINGLE), pointer, align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, _lanes), generate


def _elements(context, builder, array_type, arguments):
    """Pointers to the numbers array[start + lane · stride] of a contiguous array, one for each lane."""
    array, start, stride = arguments
    data = _data(context, builder, array_type, array)
    for lane in range(WIDTH):
        yield (
            lane,
            builder.gep(data, [builder.add(start, builder.mul(stride, ir.Constant(stride.type, lane)))]),
        )


@intrinsic
def gather(typing_context, array, start, stride):
    """One number for each lane, from array.flat[start + lane · stride]."""

    def generate(context, builder, signature, arguments):
        value = ir.Constant(_VECTOR, ir.Undefined)
        for lane, pointer in _elements(context, builder, signature.args[0], arguments):
            value = builder.insert_element(value, builder.load(pointer), ir.Constant(ir.IntType(32), lane))
        return value

    return _lanes(array, types.intp, types.intp), generate


@intrinsic
def scatter(typing_context, array, start, stride, value):
    """One number from each lane, to array.flat[start + lane · stride]; converted to the array's type."""

    def generate(context, builder, signature, arguments):
        kind = context.get_data_type(signature.args[0].dtype)
        lanes = arguments[3]
        if isinstance(kind, ir.IntType):
            lanes = builder.fptosi(lanes, ir.VectorType(kind, WIDTH))
        for lane, pointer in _elements(context, builder, signature.args[0], arguments[:3]):
            builder.store(builder.extract_element(lanes, ir.Constant(ir.IntType(32), lane)), pointer)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, _lanes), generate


def _spread(builder, number):
    empty = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(empty, number, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(first, empty, zeros)


@intrinsic
def spread(typing_context, number):
    """The same number in every lane."""

    def generate(context, builder, signature, arguments):
        return _spread(builder, arguments[0])

    return _lanes(types.float64), generate


@intrinsic
def spread_from(typing_context, array, position):
    """Number `position` of a contiguous array in every lane, without the checks of ordinary indexing."""

    def generate(context, builder, signature, arguments):
        data = _data(context, builder, signature.args[0], arguments[0])
        return _spread(builder, builder.load(builder.gep(data, [arguments[1]])))

    return _lanes(array, types.intp), generate


def _fma(builder):
    """LLVM's a · b + c."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    return cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{WIDTH}f64")


def _constant(value, kind=_VECTOR):
    return ir.Constant(kind, [value] * WIDTH)


@intrinsic
def fused(typing_context, a, b, c):
    """a · b + c, rounded once."""

    def generate(context, builder, signature, arguments):
        return builder.call(_fma(builder), arguments)

    return _lanes(_lanes, _lanes, _lanes), generate


@intrinsic
def exponential(typing_context, x):
    """e^x, to two units in the last place; 0 below x = −708, where it is no longer a normal number.

    x = n log 2 + r with |r| ≤ log 2 / 2, and e^x = 2^n e^r: n from adding a number whose last bit counts ones, e^r from
    its Taylor series (the first term left out is below 1e-17), 2^n by adding n to the exponent.
    """

    def generate(context, builder, signature, arguments):
        (x,) = arguments
        fma, constant, integers = _fma(builder), _constant, _INTEGERS
        shifted = builder.call(fma, [x, constant(1.4426950408889634), constant(6755399441055744.0)])  # 1.5 · 2^52
        n = builder.fsub(shifted, constant(6755399441055744.0))
        r = builder.call(fma, [n, constant(-0.6931471803691238), x])  # log 2 in two parts
        r = builder.call(fma, [n, constant(-1.9082149292705877e-10), r])
        series = constant(1.0 / math.factorial(13))
        for power in range(12, -1, -1):
            series = builder.call(fma, [series, r, constant(1.0 / math.factorial(power))])
        exponent = builder.shl(builder.bitcast(shifted, integers), constant(52, integers))
        found = builder.bitcast(builder.add(builder.bitcast(series, integers), exponent), _VECTOR)
        found = builder.select(builder.fcmp_ordered("<", x, constant(-708.0)), constant(0.0), found)
        found = builder.select(builder.fcmp_ordered(">", x, constant(709.0)), constant(math.inf), found)
        return builder.select(builder.fcmp_unordered("uno", x, x), x, found)

    return _lanes(_lanes), generate


@intrinsic
def logarithm(typing_context, x):
    """log x of normal numbers above 0, to two units in the last place.

    x = 2^n m with m between √½ and √2, and log x = n log 2 + 2 artanh t with t = (m − 1) / (m + 1), |t| < .172: by its
    series (the first term left out is below 1e-18).
    """

    def generate(context, builder, signature, arguments):
        (x,) = arguments
        fma, constant, integers = _fma(builder), _constant, _INTEGERS
        bits = builder.bitcast(x, integers)
        power = builder.ashr(builder.sub(bits, constant(0x3FE6A09E667F3BCD, integers)), constant(52, integers))  # of √½
        m = builder.bitcast(builder.sub(bits, builder.shl(power, constant(52, integers))), _VECTOR)
        n = builder.sitofp(power, _VECTOR)
        t = builder.fdiv(builder.fsub(m, constant(1.0)), builder.fadd(m, constant(1.0)))
        square = builder.fmul(t, t)
        series = constant(2.0 / 21.0)
        for odd in range(19, 0, -2):
            series = builder.call(fma, [series, square, constant(2.0 / odd)])
        small = builder.call(fma, [n, constant(1.9082149292705877e-10), builder.fmul(t, series)])  # log 2 in two parts
        return builder.call(fma, [n, constant(0.6931471803691238), small])

    return _lanes(_lanes), generate


@intrinsic
def where_greater(typing_context, a, b, yes, no):
    """`yes` in the lanes where a > b, `no` in the others."""

    def generate(context, builder, signature, arguments):
        return builder.select(builder.fcmp_ordered(">", *arguments[:2]), *arguments[2:])

    return _lanes(_lanes, _lanes, _lanes, _lanes), generate


@intrinsic
def any_greater(typing_context, a, b):
    """Whether a > b in at least one lane."""

    def generate(context, builder, signature, arguments):
        bits = builder.bitcast(builder.fcmp_ordered(">", *arguments), ir.IntType(WIDTH))
        return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(WIDTH), 0))

    return types.boolean(_lanes, _lanes), generate


def _arithmetic(symbol, instruction):
    """Arithmetic of lanes, without a function that would have to be compiled for it."""

    @infer_global(symbol)
    class LaneArithmetic(ConcreteTemplate):
        cases = (_lanes(_lanes, _lanes),)

    @lower_builtin(symbol, _LanesType, _LanesType)
    def compute(context, builder, signature, arguments):
        return getattr(builder, instruction)(*arguments)


for _symbol, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _arithmetic(_symbol, _instruction)
