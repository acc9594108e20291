"""Symbolic lengths: expressions of symbols, their text and file forms, and their values in a run."""

from workbench.compiler.ir.sym.expression import Expr as Expr
from workbench.compiler.ir.sym.expression import lit as lit
from workbench.compiler.ir.sym.expression import parse as parse
from workbench.compiler.ir.sym.expression import var as var
