"""Less work for Numba: functions that only compiled functions call are not optimised each by itself, and references to
arguments are not counted.

Numba optimises and assembles every function with all that it calls, although it is linked into its callers and
optimised there again. Here that is left to what Python calls. And every function counts a reference to each array it is
given up and down, although its caller has one for as long as the call takes. This uses Numba's insides, which differ
between versions: `jit` asks for it where it was tested, and compiles in Numba's own way elsewhere.
"""

import gc
from typing import Any

from numba._dynfunc import make_function
from numba.core import ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.environment import lookup_environment
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering


class InnerLibrary(JITCodeLibrary):
    """The code of a function that only compiled functions call: with what it calls, but neither optimised nor run."""

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


class BorrowingLower(Lower):
    """Numba's own, except that variables which are nothing but an argument borrow the caller's reference to it."""

    def pre_lower(self) -> None:
        super().pre_lower()
        self.is_borrowing = False
        assigned: dict[str, list[Any]] = {}
        for block in self.func_ir.blocks.values():
            for assignment in block.find_insts(ir.Assign):
                assigned.setdefault(assignment.target.name, []).append(assignment.value)
        once = {name: values[0] for name, values in assigned.items() if len(values) == 1}
        self.borrowed = {name for name, value in once.items() if isinstance(value, ir.Arg)}
        copies = {name: value.name for name, value in once.items() if isinstance(value, ir.Var)}
        while more := {name for name, source in copies.items() if source in self.borrowed} - self.borrowed:
            self.borrowed |= more

    def lower_assign(self, kind: Any, assignment: Any) -> Any:
        self.is_borrowing = assignment.target.name in self.borrowed
        try:
            return super().lower_assign(kind, assignment)
        finally:
            self.is_borrowing = False

    def delvar(self, name: str) -> None:
        self.is_borrowing = name in self.borrowed
        try:
            super().delvar(name)
        finally:
            self.is_borrowing = False

    def incref(self, kind: Any, value: Any) -> None:
        if not self.is_borrowing:
            super().incref(kind, value)

    def decref(self, kind: Any, value: Any) -> None:
        if not self.is_borrowing:
            super().decref(kind, value)


@register_pass(mutates_CFG=True, analysis_only=False)
class InnerLowering(NativeLowering):
    """Numba's own, up to the point where machine code would be made."""

    _name = "inner_lowering"
    lowering_class = BorrowingLower

    def run_pass(self, state: Any) -> bool:
        library = state.library = InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        state.flags.no_compile = False
        library._ensure_finalized()
        lowered = state["cr"]
        name, module = lowered.fndesc.qualname.split(".")[-1], lowered.fndesc.lookup_module()
        key = make_function(module, name, "", 0, lowered.env, (library,))  # by which callers find it; none can run it
        state.targetctx.insert_user_function(key, lowered.fndesc, [library])
        state.reload_init.extend(library._reload_init)
        state["cr"] = lowered._replace(cfunc=key)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class OuterLowering(NativeLowering):
    """Numba's own; then the environments of all functions in the code are set, as when it is read from disk."""

    _name = "outer_lowering"
    lowering_class = BorrowingLower

    def run_pass(self, state: Any) -> bool:
        super().run_pass(state)
        for variable in state.library._final_module.global_variables:
            environment = lookup_environment(variable.name)
            if environment is not None:
                state.library.codegen.set_env(variable.name, environment)
        return True


class InnerCompiler(CompilerBase):
    """Compiles what only compiled functions call."""

    lowering: type[NativeLowering] = InnerLowering

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(self.lowering if kind is NativeLowering else kind, words) for kind, words in passes.passes]
        passes.finalize()
        return [passes]


class OuterCompiler(InnerCompiler):
    """Compiles what Python calls.

    Garbage is not collected meanwhile: Numba makes many objects and leaves hardly any garbage, and looking for it among
    them takes a tenth of the time.
    """

    lowering = OuterLowering

    def compile_extra(self, function: Any) -> Any:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(function)
        finally:
            if was_enabled:
                gc.enable()
