"""Checkpoints: whatever passes do to a program can be taken back, in the program itself."""

from tests.compiler.rule_samples import samples
from workbench.compiler.errors import WorkbenchError
from workbench.compiler.ir.checkpoint import Checkpoint
from workbench.compiler.ir.instruction import is_constant
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.rows import rows_of
from workbench.compiler.ir.validate import validate
from workbench.compiler.passes.base import run_pass
from workbench.compiler.passes.pipelines import PIPELINES


def state(program: Program) -> dict[int, object]:
    """All that a checkpoint has to restore, users and callers included."""
    instructions = list(program.instructions)
    return {
        i.id: (i, is_constant(i), set(i.users), [m.callers for m in i.modules], row)
        for i in instructions
        for row in [rows_of(program).instructions[i.id]]
    }


def test_whatever_passes_do_is_taken_back():
    changed = 0
    for sample in samples()[::5]:
        program = sample.program()
        before, text, version = state(program), str(program), program.version
        with Checkpoint(program) as checkpoint:
            for name in ("optimize", "fusion"):
                try:
                    run_pass(PIPELINES[name], program)
                except WorkbenchError:
                    changed += 1  # a sample that is not to be compiled: taken back all the same
                changed += program.version != version
                checkpoint.restore()
                version = program.version
                validate(program)
                assert state(program) == before, sample
                assert str(program) == text
                for module in program.modules.values():
                    assert module.calling == [i for i in module if i.modules]
    assert changed > 50
