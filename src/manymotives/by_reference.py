"""Named tuples of arrays that compiled functions take by reference: one pointer each, whatever they hold.

Numba passes a named tuple as the numbers of which its arrays are made, seven or more for each array, counts references
to every array in every function, and makes code for each of them where Python calls. A sampler's functions take a
hundred arrays: that took longer to compile than all they do. Here the wrapper of what Python calls writes down once
where the arrays lie; functions hand on the address, and read from there what they use.

The arrays belong to the caller in Python, who keeps them for the time of the call. So compiled functions neither make
such tuples nor return their arrays, and count no references to them.
"""

import hashlib
from typing import Any, TypeVar

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr, models, register_model, typeof_impl, unbox

Class = TypeVar("Class", bound=type[tuple[Any, ...]])


class Reference(types.Type):
    """The type of a named tuple that is passed by reference, given the types of its fields."""

    def __init__(self, named_tuple: type, fields: tuple[types.Type, ...]) -> None:
        self.named_tuple, self.fields = named_tuple, fields
        self.index = {name: i for i, name in enumerate(named_tuple._fields)}  # type: ignore[attr-defined]
        digest = hashlib.sha256(repr(fields).encode()).hexdigest()[:16]  # short, as it is part of every function's name
        super().__init__(f"{named_tuple.__module__}.{named_tuple.__name__}.{digest}")


def by_reference(named_tuple: Class) -> Class:
    """Let compiled functions take such named tuples by reference."""

    @typeof_impl.register(named_tuple)
    def type_of(value: Any, context: Any) -> Reference | None:
        fields = tuple(typeof_impl(field, context) for field in value)
        return None if None in fields else Reference(named_tuple, fields)

    return named_tuple


@register_model(Reference)
class ReferenceModel(models.PrimitiveModel):
    """A pointer to the fields, one after the other."""

    def __init__(self, manager: Any, kind: Reference) -> None:
        block = ir.LiteralStructType([manager.lookup(field).get_value_type() for field in kind.fields])
        super().__init__(manager, kind, block.as_pointer())


@infer_getattr
class ReferenceAttributes(AttributeTemplate):
    """What type each field has."""

    key = Reference

    def generic_resolve(self, typ: Reference, attr: str) -> types.Type | None:  # type: ignore[override]
        return typ.fields[typ.index[attr]] if attr in typ.index else None


@lower_getattr_generic(Reference)
def read_field(context: Any, builder: Any, kind: Reference, pointer: Any, name: str) -> Any:
    """A field; an array without its owner, so that references to it are not counted."""
    index = kind.index[name]
    place = cgutils.gep_inbounds(builder, pointer, 0, index)
    field = kind.fields[index]
    if not isinstance(field, types.Array):
        return _read(builder, place)
    array = context.make_array(field)(context, builder)
    layout = {part: i for i, part in enumerate(array._datamodel._fields)}
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    array.parent = cgutils.get_null_value(array.parent.type)
    array.itemsize = ir.Constant(array.itemsize.type, context.get_abi_sizeof(context.get_data_type(field.dtype)))
    for part in ("nitems", "data"):
        setattr(array, part, _read(builder, cgutils.gep_inbounds(builder, place, 0, layout[part])))
    for part in ("shape", "strides"):
        numbers = [
            _read(builder, cgutils.gep_inbounds(builder, place, 0, layout[part], axis)) for axis in range(field.ndim)
        ]
        setattr(array, part, cgutils.pack_array(builder, numbers, context.get_value_type(types.intp)))
    return array._getvalue()


def _read(builder: Any, place: Any) -> Any:
    """What lies at a place that only the wrapper writes to: Numba does not inline what it calls into the wrapper."""
    value = builder.load(place)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


@unbox(Reference)
def write_fields(kind: Reference, named_tuple: Any, c: Any) -> NativeValue:
    """Fields that lie in the frame of the wrapper: arrays in a loop, so that the code for one is the code for all."""
    block = cgutils.alloca_once(c.builder, c.context.get_value_type(kind).pointee)
    failed = cgutils.alloca_once_value(c.builder, cgutils.false_bit)
    is_array = [isinstance(field, types.Array) for field in kind.fields]
    _write_arrays(block, [i for i, it_is in enumerate(is_array) if it_is], named_tuple, failed, c)
    for i, field in enumerate(kind.fields):
        if not is_array[i]:
            native = c.unbox(field, c.pyapi.tuple_getitem(named_tuple, i))
            c.builder.store(native.value, cgutils.gep_inbounds(c.builder, block, 0, i))
            c.builder.store(c.builder.or_(c.builder.load(failed), native.is_error), failed)
    return NativeValue(block, is_error=c.builder.load(failed))


def _write_arrays(block: Any, indices: list[int], named_tuple: Any, failed: Any, c: Any) -> None:
    """Arrays of a named tuple, by their indices, without references to them."""
    if not indices:
        return
    builder, size = c.builder, c.context.get_value_type(types.intp)
    offsets = [block.type.pointee.get_element_offset(c.context.target_data, i) for i in indices]
    table = ir.ArrayType(size, len(indices))
    tables = [
        cgutils.global_constant(builder, f"reference.{name}", ir.Constant(table, numbers))
        for name, numbers in (("indices", indices), ("offsets", offsets))
    ]
    item_of = c.pyapi._get_function(
        ir.FunctionType(c.pyapi.pyobj, [c.pyapi.pyobj, c.pyapi.py_ssize_t]), "PyTuple_GetItem"
    )
    adapt = c.pyapi._get_function(
        ir.FunctionType(ir.IntType(32), [c.pyapi.pyobj, c.pyapi.voidptr]), "numba_adapt_ndarray"
    )
    start = builder.bitcast(block, c.pyapi.voidptr)
    with cgutils.for_range(builder, ir.Constant(size, len(indices))) as loop:
        index, offset = (builder.load(cgutils.gep_inbounds(builder, each, 0, loop.index)) for each in tables)
        code = builder.call(adapt, (builder.call(item_of, (named_tuple, index)), builder.gep(start, [offset])))
        builder.store(builder.or_(builder.load(failed), cgutils.is_not_null(builder, code)), failed)
