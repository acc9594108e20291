"""(g) What compilation leaves: instructions and kernels after the `gpu` pipeline, by kind."""

from collections import Counter
from typing import Any

from tests.bench import ours
from tests.bench.measure import Claim, Outcome
from tests.models.registry import MODELS

SUBJECTS = (
    "resnet50",
    "resnet50_raw",
    "bert_base",
    "gpt2_small",
    "vit_base",
    "light_densenet121",
    "light_inception_v2",
    "light_resnet50",
    "light_shufflenet",
    "pplcnet_orient",
    "blazeface128",
    "magika",
    "small_encoder",
    "small_decoder",
)
LAYERS = {"bert_base": 12, "gpt2_small": 6, "vit_base": 12, "small_encoder": 2}
CONVOLUTIONS = {"resnet50": 53, "resnet50_raw": 53, "light_resnet50": 53}


def measure(subject: str, with_ours: bool, _: float) -> Outcome:
    """Counts what is left of one model."""
    if not with_ours:
        return Outcome()
    model = MODELS[subject]
    program = ours.parse(model.path, model.inputs())
    compiled = ours.after_pipeline(program, "gpu")
    found = kernels(compiled)
    text = ", ".join(f"{n} {name}" for name, n in sorted(found.items(), key=lambda k: -k[1]))
    before, after = len(program.main), len(compiled.main)
    fact = f"{before} instructions before, {after} after; {found.total()} kernels: {text}"
    return Outcome(facts=((f"counts {subject}", fact),), claims=tuple(_claims(subject, found)))


def kernels(program: ours.Program) -> Counter[str]:
    """The number of kernels by kind: instructions of main that make new values. Groups go by their tag."""
    found: Counter[str] = Counter()
    for instruction in program.main:
        operation = instruction.op
        builtin = operation.name.startswith("@") or operation.name == "get_tuple_elem"
        if not builtin and operation.alias is None and not _is_free(instruction):
            tag = getattr(operation, "tag", "")
            found[f"{operation.name} ({tag})" if tag else operation.name] += 1
    return found


def _is_free(instruction: Any) -> bool:
    """Whether a reshape only reads row-major memory with other lens: nothing is moved."""
    return instruction.name == "reshape" and instruction.inputs[0].shape.standard


def _claims(subject: str, found: Counter[str]) -> list[Claim]:
    """One kernel for each block that the model has."""
    claims: list[Claim] = []
    if subject in LAYERS:
        n = LAYERS[subject]
        groups = found["group (attention)"]
        claims.append(
            Claim("counts", subject, "attention groups", groups, n, at_least=True, unit="")
        )
        norms = found["fused_reduce"]
        claims.append(
            Claim("counts", subject, "reductions: one a layer norm", norms, 2 * n + 1, unit="")
        )
        alone = found["pointwise"]
        claims.append(Claim("counts", subject, "pointwise kernels: masks", alone, 3, unit=""))
    if subject in CONVOLUTIONS:
        rest = found["pointwise"]
        total = found["convolution"] + found["group (convolution)"]
        claims.append(
            Claim("counts", subject, "convolutions", total, CONVOLUTIONS[subject], unit="")
        )
        claims.append(Claim("counts", subject, "pointwise kernels", rest, 0, unit=""))
    return claims
