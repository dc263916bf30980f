"""TypeScript's compiler options: which there are, and what each may be. Pure; the check itself is ``kernels.typecheck``'s."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from cellwright.errors import NotebookError

__all__ = ["checked_tsconfig"]

_OPTIONS = "compilerOptions"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_TOP = _words(
    "$schema _version compileOnSave compilerOptions display exclude extends files include references typeAcquisition "
    "watchOptions buildOptions ts-node"
)

_SWITCHES = _words(
    """
    allowArbitraryExtensions allowImportingTsExtensions allowJs allowSyntheticDefaultImports allowUmdGlobalAccess
    allowUnreachableCode allowUnusedLabels alwaysStrict assumeChangesOnlyAffectDirectDependencies checkJs composite
    declaration declarationMap diagnostics disableReferencedProjectLoad disableSizeLimit disableSolutionSearching
    disableSourceOfProjectReferenceRedirect downlevelIteration emitBOM emitDeclarationOnly emitDecoratorMetadata
    erasableSyntaxOnly esModuleInterop exactOptionalPropertyTypes experimentalDecorators explainFiles
    extendedDiagnostics forceConsistentCasingInFileNames importHelpers incremental inlineSourceMap inlineSources
    isolatedDeclarations isolatedModules keyofStringsOnly libReplacement listEmittedFiles listFiles
    noCheck noEmit noEmitHelpers noEmitOnError noErrorTruncation noFallthroughCasesInSwitch noImplicitAny
    noImplicitOverride noImplicitReturns noImplicitThis noImplicitUseStrict noLib noPropertyAccessFromIndexSignature
    noResolve noStrictGenericChecks noUncheckedIndexedAccess noUncheckedSideEffectImports noUnusedLocals
    noUnusedParameters preserveConstEnums preserveSymlinks preserveValueImports preserveWatchOutput pretty
    removeComments resolveJsonModule resolvePackageJsonExports resolvePackageJsonImports rewriteRelativeImportExtensions
    skipDefaultLibCheck skipLibCheck sourceMap stableTypeOrdering strict strictBindCallApply
    strictBuiltinIteratorReturn strictFunctionTypes strictNullChecks strictPropertyInitialization stripInternal
    suppressExcessPropertyErrors suppressImplicitAnyIndexErrors traceResolution useDefineForClassFields
    useUnknownInCatchVariables verbatimModuleSyntax
    """
)

_TEXTS = _words(
    """
    baseUrl charset declarationDir generateCpuProfile generateTrace ignoreDeprecations jsxFactory jsxFragmentFactory
    jsxImportSource mapRoot out outDir outFile reactNamespace rootDir sourceRoot tsBuildInfoFile
    """
)

_LISTS = _words(
    "customConditions jsxPrecompileSkipElements lib moduleSuffixes plugins rootDirs typeRoots types"
)

_YEARS = [f"es{year}" for year in range(2015, 2027)]

_CHOICES = {
    "target": ("es3", "es5", "es6", *_YEARS, "esnext"),
    "module": _words(
        "none commonjs amd umd system es6 es2015 es2020 es2022 esnext node16 node18 node20 nodenext preserve"
    ),
    "moduleResolution": ["classic", "node", "node10", "node16", "nodenext", "bundler"],
    "moduleDetection": ["auto", "legacy", "force"],
    "jsx": ["preserve", "react", "react-native", "react-jsx", "react-jsxdev", "precompile"],
    "newLine": ["crlf", "lf"],
    "importsNotUsedAsValues": ["remove", "preserve", "error"],
}

_KNOWN = (*_SWITCHES, *_TEXTS, *_LISTS, *_CHOICES, "paths", "maxNodeModuleJsDepth")


def checked_tsconfig(given: Mapping[str, Any]) -> dict[str, Any]:
    """A ``tsconfig.json`` from compiler options, which may be given by themselves or as that file has them.

    Raises:
        NotebookError: an option is unknown, or cannot be what it is said to be.
    """
    if _OPTIONS not in given:
        return {_OPTIONS: _checked(given)}
    options = given[_OPTIONS]
    if not isinstance(options, Mapping):
        raise NotebookError(f"tsconfig: {_OPTIONS} is no object", hint='Give {"strict": true}, for example')
    for name in given:
        if name not in _TOP:
            raise NotebookError(f"tsconfig has no {name!r}", hint=_near(name, _TOP))
    return {**given, _OPTIONS: _checked(options)}


def _checked(options: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in options.items():
        if name not in _KNOWN:
            raise NotebookError(
                f"tsconfig: TypeScript has no compiler option {name!r}", hint=_near(name, _KNOWN)
            )
        if (expected := _wrong(name, value)) is not None:
            raise NotebookError(f"tsconfig: {name} cannot be {value!r}", hint=f"Give {expected}")
    return dict(options)


def _wrong(name: str, value: Any) -> str | None:
    """What the option takes, where that is something else."""
    if name in _SWITCHES:
        return None if isinstance(value, bool) else "true or false"
    if name in _CHOICES:
        fits = isinstance(value, str) and value.lower() in _CHOICES[name]
        return None if fits else f"one of {', '.join(_CHOICES[name])}"
    if name in _TEXTS:
        return None if isinstance(value, str) else "a text"
    if name in _LISTS:
        return None if isinstance(value, list) else "a list"
    if name == "paths":
        return None if isinstance(value, dict) else "an object of lists"
    return None if isinstance(value, int) and not isinstance(value, bool) else "a number"


def _near(name: str, known: tuple[str, ...]) -> str:
    folded = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), folded, n=1)
    return f"Did you mean {folded[found[0]]}?" if found else "Leave it out"
