"""(c) Running on the reference, beside onnx's ReferenceEvaluator and onnxruntime."""

from tests.bench import ours, peers
from tests.bench.measure import Claim, Contender, Outcome, paired_ratio, race
from tests.models.registry import MODELS

SUBJECTS = ("resnet50", "bert_base", "gpt2_small", "vit_base")
JUDGED = "resnet50"
UNEVALUATED = {"bert_base"}  # onnx's GatherElements fails on its constant position ids
EVALUATOR, RUNTIME = "onnx ReferenceEvaluator", "onnxruntime CPU"


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:
    """Times one run of a model."""
    model = MODELS[subject]
    path, inputs = model.path, model.inputs()
    contenders: dict[str, Contender] = {RUNTIME: peers.ort_run(path, inputs)}
    if subject not in UNEVALUATED:
        contenders[EVALUATOR] = peers.reference_evaluator(path, inputs)
    if with_ours:
        contenders["workbench ref"] = ours.run(path, inputs, "ref")
        contenders["workbench cpu"] = ours.run(path, inputs, "cpu")
    found = race("run", subject, contenders, seconds=seconds)
    if not with_ours or subject != JUDGED:
        return Outcome(tuple(found.values()))
    reference = found["workbench ref"]
    faster = found[EVALUATOR].median / reference.median
    slower = paired_ratio(reference, found[RUNTIME])
    claims = (
        Claim("run", subject, f"{EVALUATOR} / workbench ref", faster, 5.0, at_least=True),
        Claim("run", subject, f"workbench ref / {RUNTIME}", slower, 3.0),
    )
    return Outcome(tuple(found.values()), claims)
