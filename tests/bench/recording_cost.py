"""(b) What recording adds to a compile."""

from tests.bench import ours
from tests.bench.measure import Claim, Outcome, paired_ratio, race
from tests.models.registry import MODELS

SUBJECTS = ("resnet50", "resnet50_raw", "bert_base", "gpt2_small", "vit_base", "light_densenet121")
ON, OFF = "with recording", "without recording"


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:
    """Times a compile with and without recording."""
    if not with_ours:
        return Outcome()
    model = MODELS[subject]
    path, inputs = model.path, model.inputs()
    contenders = {
        ON: ours.compile_only(path, inputs),
        OFF: ours.compile_only(path, inputs, record=False),
    }
    found = race("recording", subject, contenders, repeat=25, seconds=seconds)
    ratio = paired_ratio(found[ON], found[OFF])
    claim = Claim("recording", subject, f"{ON} / {OFF}", ratio, 1.15)
    return Outcome(tuple(found.values()), (claim,))
