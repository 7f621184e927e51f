"""Libraries of machine code, as numba calls the code of one function: what is made of it, and what of it is kept on disk.

1. Of a function that only kernels call there is intermediate code alone, optimised where it is called. Numba optimises each function,
   makes machine code of it, and hands its intermediate code to its callers, where both are done again. Without that, kernels take two
   thirds of the time to compile.
2. Of a kernel that was kept, intermediate code is looked at only if another kernel calls it, and names of symbols are kept beside:
   numba goes through all of it to list them, which takes two thirds of the time of loading.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult

__all__ = ["InnerCompiler", "keep_from_python", "rebuilt", "reduced"]

_LIBRARY: Any = JITCodeLibrary
_COMPILER: Any = Compiler
_RESULT: Any = CompileResult


class _NoEngine:
    """A code generator whose engine does not know the library: so nobody can tell the engine where its environment is."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generator, name)

    def set_env(self, _name: str, _environment: Any) -> None:
        """Nothing: an environment serves errors that are raised and objects that are called, and kernels do neither."""


class _InnerLibrary(_LIBRARY):  # type: ignore[misc]
    """Intermediate code that is linked into the libraries of callers, and never run by itself."""

    @property
    def codegen(self) -> Any:
        """What generates its code."""
        return _NoEngine(self._codegen)

    def get_pointer_to_function(self, _name: str) -> int:
        """0: there is no machine code."""
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self) -> None:
        """Left to the callers."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def kept(self) -> bytes:
        """What is kept of it."""
        self._ensure_finalized()
        return bytes(self._final_module.as_bitcode())

    def read(self, bitcode: bytes) -> None:
        """Have the code that was kept."""
        self._final_module = llvm.parse_bitcode(bitcode)
        self._finalize_final_module()


class _KeptLibrary(_LIBRARY):  # type: ignore[misc]
    """Machine code that was kept."""

    _parsed: Any = None

    def read(self, code: bytes, symbols: list[str], bitcode: bytes) -> None:
        """Have the code that was kept."""
        self._bitcode = bitcode
        self.enable_object_caching()
        self._set_compiled_object(code)
        self._finalize_final_module()
        self._codegen._engine._defined_symbols.update(symbols)

    def _get_module_for_linking(self) -> Any:
        if self._parsed is None:
            self._parsed = llvm.parse_bitcode(self._bitcode)
        return self._parsed


class InnerCompiler(_COMPILER):  # type: ignore[misc]
    """Numba's compiler, for functions that only kernels call."""

    def compile_extra(self, function: Callable[..., Any]) -> Any:
        """Compile a function."""
        self.state.library = _InnerLibrary(self.state.targetctx.codegen(), function.__qualname__)
        return super().compile_extra(function)


def reduced(result: Any) -> tuple[Any, ...]:
    """What is kept of a compiled function: its library, and all else that `rebuilt` needs; numba's `CompileResult._reduce`."""
    library, description = result.library, result.fndesc
    description.typemap = description.calltypes = None
    if isinstance(library, _InnerLibrary):
        parts: tuple[Any, ...] = (library.kept(),)
    else:
        shared = library._get_module_for_linking()
        symbols = [one.name for group in (shared.functions, shared.global_variables) for one in group if not one.is_declaration]
        parts = (library._get_compiled_object(), symbols, shared.as_bitcode())
    environments = tuple(result._find_referenced_environments())
    return (library.name, parts), description, result.environment, result.signature, result.objectmode, environments


def rebuilt(context: Any, kept: tuple[Any, ...]) -> Any:
    """The compiled function of which this was kept; numba's `CompileResult._rebuild`."""
    (name, parts), description, environment, signature, objectmode, environments = kept
    library = (_InnerLibrary if len(parts) == 1 else _KeptLibrary)(context.codegen(), name)
    library.read(*parts)
    result = _RESULT(
        target_context=context,
        typing_context=context.typing_context,
        library=library,
        environment=environment,
        entry_point=context.get_executable(library, description, environment),
        fndesc=description,
        type_annotation="",
        signature=signature,
        objectmode=objectmode,
        lifted=(),
        typing_error=None,
        call_helper=None,
        metadata=None,
        reload_init=[],
        referenced_envs=environments,
    )
    for one in environments:
        library.codegen.set_env(one.env_name, one)
    return result


def keep_from_python(dispatcher: Any) -> None:
    """Refuse calls from Python, for which there is no code."""

    def add_overload(result: Any) -> None:
        dispatcher.overloads[tuple(result.signature.args)] = result

    def refuse(*_args: Any, **_options: Any) -> Any:
        raise TypeError(f"{dispatcher.py_func.__qualname__} is called by kernels only")

    dispatcher.add_overload = add_overload
    dispatcher._compile_for_args = refuse
