"""(c) Running on `cpu`, beside onnx's ReferenceEvaluator and onnxruntime."""

from collections.abc import Sequence
from statistics import geometric_mean

from tests.bench import ours, peers
from tests.bench.measure import Claim, Contender, Outcome, paired_ratio, race
from tests.models.registry import MODELS

SUBJECTS = (
    "resnet50", "bert_base", "gpt2_small", "vit_base", "pplcnet_orient", "magika", "blazeface128",
    "mtcnn_p", "silero_16k_static",
)  # fmt: skip
BURST = 5
EVALUATOR, RUNTIME, OURS = "onnx ReferenceEvaluator", "onnxruntime CPU", "workbench cpu"


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:
    """Times one run of a model."""
    model = MODELS[subject]
    path, inputs = model.path, model.inputs()
    contenders: dict[str, Contender] = {
        RUNTIME: peers.ort_run(path, inputs),
        EVALUATOR: peers.reference_evaluator(path, inputs),
    }
    if with_ours:
        contenders[OURS] = ours.run(path, inputs, "cpu")
    found = race("run", subject, contenders, seconds=seconds, burst=BURST)
    if not with_ours:
        return Outcome(tuple(found.values()))
    faster = found[EVALUATOR].median / found[OURS].median
    claim = Claim("run", subject, f"{EVALUATOR} / {OURS}", faster, 1.0, at_least=True)
    return Outcome(tuple(found.values()), (claim,))


def overall(outcomes: Sequence[Outcome]) -> tuple[Claim, ...]:
    """Claims about the means over the models of one run."""
    runs = [t for o in outcomes for t in o.timings if t.measure == "run"]
    by_name = {
        name: {t.subject: t for t in runs if t.name == name} for name in (EVALUATOR, RUNTIME, OURS)
    }
    subjects = by_name[OURS]
    if not subjects:
        return ()
    faster = [by_name[EVALUATOR][s].median / t.median for s, t in subjects.items()]
    slower = [paired_ratio(t, by_name[RUNTIME][s]) for s, t in subjects.items()]
    what = f"geometric mean of {len(subjects)}"
    together = sum(t.median for t in subjects.values())
    theirs = sum(by_name[RUNTIME][s].median for s in subjects)
    return (
        Claim("run", what, f"{EVALUATOR} / {OURS}", geometric_mean(faster), 10.0, at_least=True),
        Claim("run", what, f"{OURS} / {RUNTIME}", geometric_mean(slower), 2.0),
        Claim("run", f"sum of {len(subjects)}", f"{OURS} / {RUNTIME}", together / theirs, 2.0),
    )
