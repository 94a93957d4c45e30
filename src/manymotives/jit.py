"""How loops are compiled by Numba: what Python calls, and what only compiled functions call.

A function that Python calls has a wrapper that takes its arguments out of Python objects. With a dozen arrays in each
of five tuples that takes longer to compile than most functions here, so those that are called from compiled functions
alone have none: called from Python, which tests do, they are plain Python. They are not kept on disk either, but in the
function that calls them.

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

import numba
from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.extending import register_jitable

IMPORTED = re.compile(r"^ *(?:from|import) +(numba|manymotives[\w.]*)", re.MULTILINE)
OPTIONS: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True}  # nobody calls functions as C does
TESTED = ("0.68.",)  # versions of Numba whose insides `lowering` is known to fit


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


def _compiler(name: str) -> dict[str, Any]:
    """How to compile, for `njit`: in Numba's own way, unless its insides are those that `lowering` was tested with."""
    if not numba.__version__.startswith(TESTED):
        return {}
    from manymotives import lowering

    return {"pipeline_class": getattr(lowering, name)}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile what Python calls, when it is called, and keep it on disk: beside the source, or else for the user."""
    dispatcher: Any = njit(nogil=True, **OPTIONS, **_compiler("OuterCompiler"))(function)
    with suppress(RuntimeError):  # there is nowhere to keep it
        kept = FunctionCache(function)
        stamp = kept._impl.locator.get_source_stamp(), digest_of_sources()
        kept._cache_file = CacheIndex(kept.cache_path, kept._impl.filename_base, source_stamp=stamp)
        dispatcher._cache = kept
    return dispatcher


INNER: dict[str, Any] = {**OPTIONS, **_compiler("InnerCompiler")}
inner = register_jitable(**INNER)
inner_any_order = register_jitable(**INNER, fastmath={"reassoc", "contract"})
