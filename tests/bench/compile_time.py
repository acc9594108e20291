"""(a) Compiling with recording, beside onnxruntime's session and onnxscript's optimizer."""

from tests.bench import ours, peers
from tests.bench.measure import Claim, Contender, Outcome, paired_ratio, race
from tests.models.registry import MODELS

SUBJECTS = (
    "resnet50",
    "resnet50_raw",
    "resnet50_narrow",
    "bert_base",
    "bert_narrow",
    "gpt2_small",
    "gpt2_dynamic",
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
SESSION_LIMIT = {"resnet50": 1.5, "bert_base": 1.5, "bert_narrow": 1.2, "resnet50_narrow": 5.0}
OPTIMIZER_LIMIT = 0.7
RECORDED, WHOLE = "workbench compile", "workbench parse + compile"
SESSION, SESSION_BYTES = "onnxruntime session", "onnxruntime session of bytes"
OPTIMIZER = "onnxscript optimizer"


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:
    """Times the compilers on one model."""
    model = MODELS[subject]
    path, inputs = model.path, model.inputs()
    contenders: dict[str, Contender] = {
        SESSION: peers.ort_session(path),
        SESSION_BYTES: peers.ort_session_from_bytes(path),
        OPTIMIZER: peers.onnxscript_optimizer(path),
    }
    if with_ours:
        contenders[RECORDED] = ours.compile_only(path, inputs)
        contenders[WHOLE] = ours.parse_and_compile(path, inputs)
    found = race("compile", subject, contenders, seconds=seconds)
    claims: list[Claim] = []
    if with_ours:
        against_session = paired_ratio(found[RECORDED], found[SESSION])
        limit = SESSION_LIMIT.get(subject)
        if limit:
            text = f"{RECORDED} / {SESSION}"
            claims.append(Claim("compile", subject, text, against_session, limit))
        against_optimizer = paired_ratio(found[RECORDED], found[OPTIMIZER])
        text = f"{RECORDED} / {OPTIMIZER}"
        claims.append(Claim("compile", subject, text, against_optimizer, OPTIMIZER_LIMIT))
    return Outcome(tuple(found.values()), tuple(claims))
