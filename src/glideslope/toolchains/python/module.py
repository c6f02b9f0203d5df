"""What one Python source file says, read from its bytes alone: imports, names, syntax.

Facts depend on nothing but the content, so they are kept by blob id and shared by all
snapshots. Reading is conservative: a file that does not parse is still searched for imports
line by line, and strings that could name a module are kept.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
import tokenize
import warnings
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO

from glideslope.errors import UnknownId
from glideslope.model.ids import BlobId
from glideslope.model.paths import RepoPath
from glideslope.model.snapshot import FileMode
from glideslope.ports.toolchain import Output, Tree

OUR_VERSION = (sys.version_info[0], sys.version_info[1])
"""The grammar that facts are read with; a project's interpreter may know another one."""


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module. Positional, because there are tens of thousands of them."""

    module: str  # dotted, without leading dots; "" for `from . import x`
    names: tuple[str, ...]  # of a from-import; empty for `import m`; ("*",) for a star import
    level: int  # leading dots, 0 is absolute
    line: int  # from 1
    column: int  # from 1
    in_function: bool = False  # runs only when the function is called
    typing_only: bool = False  # below `if TYPE_CHECKING`
    guarded: bool = False  # below a `try` that catches a failed import
    dynamic: bool = False  # import_module("...") and the like

    @property
    def at_load(self) -> bool:
        """Whether loading the module performs this import."""
        return not (self.in_function or self.typing_only or self.dynamic)


@dataclass(frozen=True, slots=True)
class SyntaxFault:
    """Where and why a file does not compile. Line and column count from 1."""

    line: int
    column: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleFacts:
    """Everything there is to know of one source file without running it."""

    imports: tuple[Import, ...] = ()  # in order of appearance
    mentions: frozenset[str] = frozenset()  # strings that could name a module, an attribute or a script
    prefixes: frozenset[str] = frozenset()  # strings that could begin a module's name, without the last dot
    scans: bool = False  # imports names it computes: may load anything in its own folder
    names: frozenset[str] = frozenset()  # bound at the top level
    star: bool = False  # further names come from a star import
    fault: SyntaxFault | None = None
    encoding: str = "utf-8"

    def binds(self, name: str) -> bool | None:
        """Whether a top-level name exists; None: cannot be told without running the module."""
        if name in self.names:
            return True
        return None if self.star or self.scans or self.fault or "__getattr__" in self.names else False


OPAQUE = ModuleFacts(star=True)
"""A file whose content is not at hand."""

_IMPORTERS = frozenset(
    ["import_module", "__import__", "importorskip", "find_spec", "run_module", "load_module", "import_string"]
)
_MARKERS = _IMPORTERS | frozenset(
    ["pytest_plugins", "entry_points", "EntryPoint", "iter_modules", "walk_packages", "-m"]
)
_GUARDS = frozenset(["ImportError", "ModuleNotFoundError", "Exception", "BaseException"])
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?::[A-Za-z_][\w.]*)?\Z")
_SCRIPT = re.compile(r"[\w./\\ -]*\w\.pyi?\Z")
_PREFIX = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\.(?:\Z|[{%])")
_CODE = re.compile(
    r"^[ \t>.]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+\(?([\w, \t*]+)|import[ \t]+([\w., \t]+))", re.M
)
_CODE_INLINE = re.compile(r"\b(?:from[ \t]+([\w.]+)[ \t]+import\b|import[ \t]+([\w.]+))")
_LONGEST_MENTION = 200


def read_facts(source: bytes) -> ModuleFacts:
    """Reads one source file.

    Args:
        source: The raw bytes, any encoding declaration included.

    Returns:
        Its facts; where it does not parse with our grammar, the fault and what a search
        line by line finds.
    """
    encoding = read_encoding(source)
    tree = parse(source)
    if isinstance(tree, SyntaxFault):
        text = source.decode(encoding or "latin-1", "replace")
        return ModuleFacts(
            imports=tuple(_imports_by_line(text)), fault=tree, encoding=encoding or "utf-8", star=True
        )
    reader = _Reader()
    reader.read(tree.body)
    return reader.facts(encoding or "utf-8")


def parse(source: bytes) -> ast.Module | SyntaxFault:
    """Parses one source file with our own grammar; runs nothing.

    Returns:
        The syntax tree, or why there is none.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return _fault(error)


def compile_fault(source: bytes) -> SyntaxFault | None:
    """Compiles one source file with our own grammar, in memory; runs nothing.

    Stricter than `parse`: a `return` outside a function parses, but does not compile.

    Returns:
        What is wrong with it, or None.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(source, "<source>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return _fault(error)
    return None


def _fault(error: Exception) -> SyntaxFault:
    if isinstance(error, SyntaxError):
        return SyntaxFault(
            max(error.lineno or 1, 1), max(error.offset or 1, 1), error.msg or "invalid syntax"
        )
    # NUL bytes, an integer literal past the limit, nesting past the parser's stack.
    return SyntaxFault(1, 1, str(error) or "cannot be parsed")


def read_encoding(source: bytes) -> str | None:
    """The encoding a source file declares; None where the declaration is not usable."""
    try:
        return tokenize.detect_encoding(BytesIO(source).readline)[0]
    except SyntaxError:
        return None


class Memo:
    """Facts by blob id, kept across snapshots. Bounded: the oldest half goes when it is full."""

    __slots__ = ("_digests", "_facts", "_limit", "base_answers", "shelf")

    def __init__(self, limit: int = 40_000) -> None:
        self._facts: dict[BlobId, ModuleFacts] = {}
        self._limit = limit
        self._digests: list[tuple[Tree, str]] = []  # of the last trees asked about
        self.base_answers: dict[Hashable, Output] = {}
        """What static tools answered about bases; kept by `checks`."""
        self.shelf: dict[str, object] = {}
        """Room for what others derive from facts; each under its own name."""

    def digest(self, tree: Tree) -> str:
        """A digest of all paths and contents of a tree."""
        for known, digest in self._digests:
            if known is tree:
                return digest
        text = "\0".join(f"{path}\0{entry.mode}{entry.blob}" for path, entry in sorted(tree.entries.items()))
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
        self._digests = [*self._digests[-3:], (tree, digest)]
        return digest

    def facts(self, tree: Tree, path: RepoPath) -> ModuleFacts:
        """Facts of a file of the tree; `OPAQUE` for a link, or where the content is not stored."""
        entry = tree.entries[path]
        if entry.mode is FileMode.SYMLINK:
            return OPAQUE  # what is stored is the name of its target, not code
        blob = entry.blob
        found = self._facts.get(blob)
        if found is None:
            try:
                found = read_facts(tree.read(path))
            except UnknownId:
                return OPAQUE
            if len(self._facts) >= self._limit:
                for old in list(self._facts)[: self._limit // 2]:
                    self._facts.pop(old, None)  # another thread may have been quicker
            self._facts[blob] = found
        return found


class _Reader:
    """Walks one syntax tree once and gathers the facts."""

    def __init__(self) -> None:
        self.imports: list[Import] = []
        self.names: set[str] = set()
        self.strings: set[str] = set()
        self.prefixes: set[str] = set()
        self.docs: list[str] = []
        self.star = False
        self.marked = False
        self.computed = False
        self._in_function = False
        self._typing = False
        self._guarded = False
        self._top = True

    def facts(self, encoding: str) -> ModuleFacts:
        mentions: set[str] = set()
        for text in self.strings:
            dotted = _DOTTED.match(text) and (self.marked or "." in text or ":" in text)
            if len(text) <= _LONGEST_MENTION and (dotted or _SCRIPT.match(text)):
                mentions.add(text)
            if "import " in text:
                mentions.update(_mentioned_in_code(text))
        for text in self.docs:
            if ">>>" in text:
                mentions.update(_mentioned_in_code(text))
        return ModuleFacts(
            imports=tuple(self.imports),
            mentions=frozenset(mentions),
            prefixes=frozenset(self.prefixes) if self.marked else frozenset(),
            scans=self.computed,
            names=frozenset(self.names),
            star=self.star,
            encoding=encoding,
        )

    def read(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Import():
                self._import(node)
            case ast.ImportFrom():
                self._import_from(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._definition(node)
            case ast.If() if _is_typing_test(node.test):
                self._within("_typing", node.body)
                self.read(node.orelse)
            case ast.Try() | ast.TryStar():
                self._try(node)
            case ast.Expr(value=ast.Constant(value=str(text))):
                self.docs.append(text)
            case ast.Global():
                self.names.update(node.names)
            case _:
                self._other(node)

    def _other(self, node: ast.AST) -> None:
        """Any other node: its statements are read as statements, the rest is searched."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self._statement(child)
            elif isinstance(child, ast.expr):
                self._search(child)
            else:
                if self._top and isinstance(child, ast.MatchAs | ast.MatchStar) and child.name:
                    self.names.add(child.name)
                self._other(child)

    def _within(self, flag: str, body: list[ast.stmt]) -> None:
        before = getattr(self, flag)
        setattr(self, flag, True)
        self.read(body)
        setattr(self, flag, before)

    def _try(self, node: ast.Try | ast.TryStar) -> None:
        guards = any(_catches_import(handler.type) for handler in node.handlers)
        if guards:
            # The alternative in a handler is as optional as the first choice.
            self._within("_guarded", node.body)
            for handler in node.handlers:
                self._within("_guarded", handler.body)
        else:
            self.read(node.body)
            for handler in node.handlers:
                self.read(handler.body)
        self.read(node.orelse)
        self.read(node.finalbody)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        if self._top:
            self.names.add(node.name)
        for expression in node.decorator_list:
            self._search(expression)
        top, in_function = self._top, self._in_function
        self._top = False
        if isinstance(node, ast.ClassDef):
            for expression in [*node.bases, *(keyword.value for keyword in node.keywords)]:
                self._search(expression)
        else:
            self._search(node.args)
            if node.returns is not None:
                self._search(node.returns)
            self._in_function = True
        self.read(node.body)
        self._top, self._in_function = top, in_function

    def _add(self, node: ast.stmt, module: str, names: tuple[str, ...], level: int) -> None:
        self.imports.append(
            Import(
                module,
                names,
                level,
                node.lineno,
                node.col_offset + 1,
                in_function=self._in_function,
                typing_only=self._typing,
                guarded=self._guarded,
            )
        )

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(node, alias.name, (), 0)
            if self._top:
                self.names.add(alias.asname or alias.name.partition(".")[0])

    def _import_from(self, node: ast.ImportFrom) -> None:
        names = tuple(alias.name for alias in node.names)
        self._add(node, node.module or "", names, node.level)
        self.marked |= bool(_MARKERS.intersection(names))
        if self._top:
            self.star |= "*" in names
            self.names.update(alias.asname or alias.name for alias in node.names)

    def _search(self, root: ast.AST) -> None:
        """Searches an expression for strings, bound names and dynamic imports."""
        # The hottest loop of a cold start: no generators, the commonest kinds first.
        pending: list[ast.AST] = [root]
        while pending:
            node = pending.pop()
            if isinstance(node, ast.Name):
                if self._top and isinstance(node.ctx, ast.Store):
                    self.names.add(node.id)
                self.marked |= node.id in _MARKERS
            elif isinstance(node, ast.Constant):
                if isinstance(node.value, str):
                    self._string(node.value)
            elif isinstance(node, ast.Attribute):
                self.marked |= node.attr in _MARKERS
                pending.append(node.value)
            else:
                if isinstance(node, ast.Call):
                    self._call(node)
                for field in node._fields:
                    value = getattr(node, field, None)
                    if isinstance(value, list):
                        pending += [entry for entry in value if isinstance(entry, ast.AST)]
                    elif isinstance(value, ast.AST):
                        pending.append(value)

    def _string(self, text: str) -> None:
        self.strings.add(text)
        if text == "-m":
            self.marked = True
        found = _PREFIX.match(text)
        if found:
            self.prefixes.add(found[1])

    def _call(self, node: ast.Call) -> None:
        name = _last_name(node.func)
        if name not in _IMPORTERS or not node.args:
            return
        target = node.args[0]
        if not (isinstance(target, ast.Constant) and isinstance(target.value, str)):
            # Looking for a module is not loading it.
            self.computed |= name != "find_spec"
            return
        text = target.value
        module = text.lstrip(".")
        level = len(text) - len(module)
        package = next((k.value for k in node.keywords if k.arg == "package"), None)
        package = node.args[1] if len(node.args) > 1 and name == "import_module" else package
        if level and isinstance(package, ast.Constant) and isinstance(package.value, str):
            parts = package.value.split(".")
            module = ".".join([*parts[: len(parts) - level + 1], module]).strip(".")
            level = 0
        self.imports.append(
            Import(
                module,
                (),
                level,
                node.lineno,
                node.col_offset + 1,
                in_function=self._in_function,
                typing_only=self._typing,
                guarded=True,  # what a failed dynamic import means is the caller's business
                dynamic=True,
            )
        )


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _is_typing_test(node: ast.expr) -> bool:
    return _last_name(node) == "TYPE_CHECKING"


def _catches_import(node: ast.expr | None) -> bool:
    if node is None:
        return True
    caught = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(_last_name(entry) in _GUARDS for entry in caught)


@lru_cache(maxsize=4096)
def _mentioned_in_code(text: str) -> frozenset[str]:
    """Modules that code inside a string imports."""
    return frozenset(first or second for first, second in _CODE_INLINE.findall(text))


def _imports_by_line(text: str) -> Iterator[Import]:
    """Imports of a file that does not parse, as far as single lines show them."""
    for found in _CODE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        source, names, modules = found.groups()
        if modules is not None:
            for entry in modules.split(","):
                module = entry.split()[0] if entry.split() else ""
                if module:
                    yield Import(module, (), 0, line, 1, guarded=True)
            continue
        module = source.lstrip(".")
        taken = tuple(entry.split()[0] for entry in names.split(",") if entry.split())
        yield Import(module, taken, len(source) - len(module), line, 1, guarded=True)
