"""Sixteen (or eight) float64 numbers that Numba treats as one: a register or a few, for planning many rewards at once.

Numba turns loops over a last axis of 16 into scalar code or guards them with aliasing checks; these few
intrinsics say what is meant, and LLVM maps them to whatever the machine has (AVX-512: two registers, AVX2: four,
NEON: eight). Sixteen, not eight, because the dependent steps of a dense elimination leave the arithmetic units waiting
unless two registers are in flight. Sparse factors wait for memory instead: `factor_lanes` has lanes of eight.

Arrays of lanes are C-contiguous float64 [rows, width], read and written a row at a time; `row` counts in lanes.
"""

import math
import operator
from functools import partial
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.typing.templates import ConcreteTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, register_model

WIDTH = 16
HALF = 8


class _LanesType(types.Type):
    def __init__(self, width):
        super().__init__(name=f"Lanes{width}")
        self.width = width


@register_model(_LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, lanes):
        super().__init__(manager, lanes, _vector(lanes))


_LANES = {width: _LanesType(width) for width in (WIDTH, HALF)}


def _vector(lanes, of=None):
    return ir.VectorType(of or ir.DoubleType(), lanes.width)


def _constant(lanes, value, of=None):
    return ir.Constant(_vector(lanes, of), [value] * lanes.width)


def _data(context, builder, array_type, array):
    """Where an array's numbers begin; they must follow each other as C orders them."""
    if array_type.layout != "C":
        raise TypingError("lanes need C-contiguous arrays")
    return context.make_array(array_type)(context, builder, array).data


def _spread(builder, lanes, number):
    empty = ir.Constant(_vector(lanes), ir.Undefined)
    first = builder.insert_element(empty, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, empty, _constant(lanes, 0, ir.IntType(32)))


class Memory(NamedTuple):
    """What brings numbers into lanes of one width, and back."""

    load: Any
    store: Any
    load_single: Any
    store_single: Any
    gather: Any
    scatter: Any
    spread: Any
    spread_from: Any


def memory_of(width: int) -> Memory:
    """These for lanes of one width: WIDTH or HALF."""
    lanes = _LANES[width]

    def row_of(context, builder, array_type, array, row, vector):
        element = builder.gep(
            _data(context, builder, array_type, array), [builder.mul(row, ir.Constant(row.type, width))]
        )
        return builder.bitcast(element, vector.as_pointer())

    def elements(context, builder, array_type, array, start, stride):
        """Pointers to the numbers array[start + lane · stride] of a contiguous array, one for each lane."""
        data = _data(context, builder, array_type, array)
        for lane in range(width):
            position = builder.add(start, builder.mul(stride, ir.Constant(stride.type, lane)))
            yield ir.Constant(ir.IntType(32), lane), builder.gep(data, [position])

    @intrinsic
    def load(typing_context, array, row):
        """The row-th `width` numbers of a contiguous array."""

        def generate(context, builder, signature, arguments):
            place = row_of(context, builder, signature.args[0], *arguments, _vector(lanes))
            return builder.load(place, align=8)

        return lanes(array, types.intp), generate

    @intrinsic
    def store(typing_context, array, row, value):
        """Overwrite the row-th `width` numbers of a contiguous array."""

        def generate(context, builder, signature, arguments):
            place = row_of(context, builder, signature.args[0], *arguments[:2], _vector(lanes))
            builder.store(arguments[2], place, align=8)
            return context.get_dummy_value()

        return types.void(array, types.intp, lanes), generate

    @intrinsic
    def load_single(typing_context, array, row):
        """The row-th `width` numbers of a contiguous array of float32, as float64."""

        def generate(context, builder, signature, arguments):
            place = row_of(context, builder, signature.args[0], *arguments, _vector(lanes, ir.FloatType()))
            return builder.fpext(builder.load(place, align=4), _vector(lanes))

        return lanes(array, types.intp), generate

    @intrinsic
    def store_single(typing_context, array, row, value):
        """Overwrite the row-th `width` numbers of a contiguous array of float32, rounded."""

        def generate(context, builder, signature, arguments):
            single = _vector(lanes, ir.FloatType())
            place = row_of(context, builder, signature.args[0], *arguments[:2], single)
            builder.store(builder.fptrunc(arguments[2], single), place, align=4)
            return context.get_dummy_value()

        return types.void(array, types.intp, lanes), generate

    @intrinsic
    def gather(typing_context, array, start, stride):
        """One number for each lane, from array.flat[start + lane · stride]."""

        def generate(context, builder, signature, arguments):
            value = ir.Constant(_vector(lanes), ir.Undefined)
            for lane, place in elements(context, builder, signature.args[0], *arguments):
                value = builder.insert_element(value, builder.load(place), lane)
            return value

        return lanes(array, types.intp, types.intp), generate

    @intrinsic
    def scatter(typing_context, array, start, stride, value):
        """One number from each lane, to array.flat[start + lane · stride]; converted to the array's type."""

        def generate(context, builder, signature, arguments):
            kind = context.get_data_type(signature.args[0].dtype)
            numbers = arguments[3]
            if isinstance(kind, ir.IntType):
                numbers = builder.fptosi(numbers, _vector(lanes, kind))
            for lane, place in elements(context, builder, signature.args[0], *arguments[:3]):
                builder.store(builder.extract_element(numbers, lane), place)
            return context.get_dummy_value()

        return types.void(array, types.intp, types.intp, lanes), generate

    @intrinsic
    def spread(typing_context, number):
        """The same number in every lane."""

        def generate(context, builder, signature, arguments):
            return _spread(builder, lanes, arguments[0])

        return lanes(types.float64), generate

    @intrinsic
    def spread_from(typing_context, array, position):
        """Number `position` of a contiguous array in every lane, without the checks of ordinary indexing."""

        def generate(context, builder, signature, arguments):
            data = _data(context, builder, signature.args[0], arguments[0])
            return _spread(builder, lanes, builder.load(builder.gep(data, [arguments[1]])))

        return lanes(array, types.intp), generate

    return Memory(load, store, load_single, store_single, gather, scatter, spread, spread_from)


load, store, load_single, store_single, gather, scatter, spread, spread_from = memory_of(WIDTH)


def _fma(builder, lanes):
    """LLVM's a · b + c."""
    vector = _vector(lanes)
    return cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{lanes.width}f64"
    )


@intrinsic
def fused(typing_context, a, b, c):
    """a · b + c, rounded once."""

    def generate(context, builder, signature, arguments):
        return builder.call(_fma(builder, a), arguments)

    return a(a, a, a), generate


@intrinsic
def exponential(typing_context, x):
    """e^x, to two units in the last place; 0 below x = −708, where it is no longer a normal number.

    x = n log 2 + r with |r| ≤ log 2 / 2, and e^x = 2^n e^r: n from adding a number whose last bit counts ones, e^r from
    its Taylor series (the first term left out is below 1e-17), 2^n by adding n to the exponent.
    """

    def generate(context, builder, signature, arguments):
        (x,) = arguments
        lanes = signature.return_type
        fma, vector, integers = _fma(builder, lanes), _vector(lanes), _vector(lanes, ir.IntType(64))
        constant, integer = partial(_constant, lanes), partial(_constant, lanes, of=ir.IntType(64))
        shifted = builder.call(fma, [x, constant(1.4426950408889634), constant(6755399441055744.0)])  # 1.5 · 2^52
        n = builder.fsub(shifted, constant(6755399441055744.0))
        r = builder.call(fma, [n, constant(-0.6931471803691238), x])  # log 2 in two parts
        r = builder.call(fma, [n, constant(-1.9082149292705877e-10), r])
        series = constant(1.0 / math.factorial(13))
        for power in range(12, -1, -1):
            series = builder.call(fma, [series, r, constant(1.0 / math.factorial(power))])
        exponent = builder.shl(builder.bitcast(shifted, integers), integer(52))
        found = builder.bitcast(builder.add(builder.bitcast(series, integers), exponent), vector)
        found = builder.select(builder.fcmp_ordered("<", x, constant(-708.0)), constant(0.0), found)
        found = builder.select(builder.fcmp_ordered(">", x, constant(709.0)), constant(math.inf), found)
        return builder.select(builder.fcmp_unordered("uno", x, x), x, found)

    return x(x), generate


@intrinsic
def logarithm(typing_context, x):
    """log x of normal numbers above 0, to two units in the last place.

    x = 2^n m with m between √½ and √2, and log x = n log 2 + 2 artanh t with t = (m − 1) / (m + 1), |t| < .172: by its
    series (the first term left out is below 1e-18).
    """

    def generate(context, builder, signature, arguments):
        (x,) = arguments
        lanes = signature.return_type
        fma, vector, integers = _fma(builder, lanes), _vector(lanes), _vector(lanes, ir.IntType(64))
        constant, integer = partial(_constant, lanes), partial(_constant, lanes, of=ir.IntType(64))
        bits = builder.bitcast(x, integers)
        power = builder.ashr(builder.sub(bits, integer(0x3FE6A09E667F3BCD)), integer(52))  # of √½
        m = builder.bitcast(builder.sub(bits, builder.shl(power, integer(52))), vector)
        n = builder.sitofp(power, vector)
        t = builder.fdiv(builder.fsub(m, constant(1.0)), builder.fadd(m, constant(1.0)))
        square = builder.fmul(t, t)
        series = constant(2.0 / 21.0)
        for odd in range(19, 0, -2):
            series = builder.call(fma, [series, square, constant(2.0 / odd)])
        small = builder.call(fma, [n, constant(1.9082149292705877e-10), builder.fmul(t, series)])  # log 2 in two parts
        return builder.call(fma, [n, constant(0.6931471803691238), small])

    return x(x), generate


@intrinsic
def where_greater(typing_context, a, b, yes, no):
    """`yes` in the lanes where a > b, `no` in the others."""

    def generate(context, builder, signature, arguments):
        return builder.select(builder.fcmp_ordered(">", *arguments[:2]), *arguments[2:])

    return a(a, a, a, a), generate


@intrinsic
def any_greater(typing_context, a, b):
    """Whether a > b in at least one lane."""

    def generate(context, builder, signature, arguments):
        bits = builder.bitcast(builder.fcmp_ordered(">", *arguments), ir.IntType(a.width))
        return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(a.width), 0))

    return types.boolean(a, a), generate


def _arithmetic(symbol, instruction):
    """Arithmetic of lanes, without a function that would have to be compiled for it."""

    @infer_global(symbol)
    class LaneArithmetic(ConcreteTemplate):
        cases = tuple(lanes(lanes, lanes) for lanes in _LANES.values())

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
