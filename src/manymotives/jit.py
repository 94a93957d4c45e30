"""How loops are compiled by Numba: what Python calls, and what only compiled functions call.

A function that Python calls has a wrapper that takes its arguments out of Python objects. With a dozen arrays in each
of five tuples that takes longer to compile than most functions here, so those that are called from compiled functions
alone have none: called from Python, which tests do, they are plain Python. They are not kept on disk either, but in the
function that calls them. There they are optimised too, once: Numba would optimise and assemble each of them by itself
as well, with all that it calls, which takes a quarter longer (`InnerCompiler`).

What is kept on disk holds the code of everything it calls, and the constants of other files, but Numba's cache watches
the file of the function alone. Here it is keyed to all of them, so that no change leaves old code running.
"""

import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit
from numba._dynfunc import make_function
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.environment import lookup_environment
from numba.core.typed_passes import NativeLowering
from numba.extending import register_jitable

IMPORTED = re.compile(r"^ *(?:from|import) +(numba|manymotives[\w.]*)", re.MULTILINE)


@cache
def digest_of_sources(root: Path = Path(__file__).parent) -> str:
    """Of all files under `root` that Numba compiles, and of those they import from."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.py"))}
    imported = {path: set(IMPORTED.findall(text)) for path, text in texts.items()}
    names = {path: ".".join((root.name, *path.relative_to(root).with_suffix("").parts)) for path in texts}
    here = f"{root.name}.jit"
    loops = [path for path in texts if {"numba", here} & imported[path]]
    wanted = {name for path in loops for name in imported[path]}
    made = hashlib.sha256()
    for path, text in texts.items():
        if path in loops or names[path] in wanted or names[path].removesuffix(".__init__") in wanted:
            made.update(f"{names[path]}\n{text}".encode())
    return made.hexdigest()


class CacheIndex(IndexDataCacheFile):
    """Numba's list of what is on disk; one that names classes which have moved since is as good as none.

    Numba reads the types of all entries before it looks whether they are of this code.
    """

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except Exception:  # whatever unpickling may raise
            return {}


class InnerLibrary(JITCodeLibrary):
    """The code of a function that only compiled functions call: with what it calls, but neither optimised nor run."""

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class InnerLowering(NativeLowering):
    """Numba's own, up to the point where machine code would be made."""

    _name = "inner_lowering"

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
    """Compiles what Python calls."""

    lowering = OuterLowering


def compiled(function: Callable[..., Any]) -> Any:
    """Compile what Python calls, when it is called, and keep it on disk: beside the source, or else for the user."""
    dispatcher: Any = njit(nogil=True, error_model="numpy", pipeline_class=OuterCompiler)(function)
    with suppress(RuntimeError):  # there is nowhere to keep it
        kept = FunctionCache(function)
        stamp = kept._impl.locator.get_source_stamp(), digest_of_sources()
        kept._cache_file = CacheIndex(kept.cache_path, kept._impl.filename_base, source_stamp=stamp)
        dispatcher._cache = kept
    return dispatcher


INNER: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True, "pipeline_class": InnerCompiler}
inner = register_jitable(**INNER)
inner_any_order = register_jitable(**INNER, fastmath={"reassoc", "contract"})
inlined = njit(inline="always", error_model="numpy")  # before any type is known: for calls that cost more than the work
