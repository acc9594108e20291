# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: -all
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Write your own rule
#
# A compiler improves a program by small, local rewrites. Each is a **rule**: a pattern to look for, and what to put in its place. In this lesson you
# write some, have their laws checked, and see them at work.
#
# About 45 minutes; needs the lessons on the intermediate representation, and on passes and laws.

# %%
import workbench as wb
from workbench import teach
from workbench.compiler.passes.base import RewritePass
from workbench.compiler.rewrite import literal, op, var

# %% [markdown]
# ## 1. A pattern, a function, a law
#
# `op("neg", op("neg", var("x")))` matches a `neg` of a `neg`; `x` is a name for whatever is inside. The function gets the matched values by name, and
# returns what replaces the outer one. Its docstring is the **law**: what is equal to what.


# %%
@wb.rule(op("neg", op("neg", var("x"))))
def cancel_neg(b, x):
    """neg(neg(x)) → x"""
    return x


program = wb.trace(lambda x: x.neg().neg().exp(), x=(4,))


class Mine(RewritePass):
    """A pass with one rule."""

    name = "mine"
    rules = (cancel_neg,)


build = wb.compile(program, passes=[Mine()])
print(build.recording[0].sentences)
print(build.program)

# %%
build.explore(height=520)

# %% [markdown]
# ## 2. A law is checked, not believed
#
# `wb.check_rule` makes random programs that match the pattern, and runs each before and after the rule: on usual numbers and at the edges of the types,
# such as NaN, infinities, the largest numbers and empty axes.

# %%
print(wb.check_rule(cancel_neg))


# %%
@wb.rule(op("sub", var("x"), var("x")))
def cancel_sub(b, x):
    """sub(x, x) → neg(x)"""
    return b("neg", x)


print(str(wb.check_rule(cancel_sub)).split("before")[0])

# %%
zero = teach.Choice(
    "The rule above is plainly wrong. But even sub(x, x) → 0 does not hold everywhere. Where not?",
    {
        "where x is 0": "0 − 0 is 0; the law holds.",
        "where x is infinite or NaN": "Yes: ∞ − ∞ is NaN, not 0. A compiler that rewrites it hides the NaN.",
        "where x is very small": "Even for the smallest numbers x − x is exactly 0.",
    },
    truth="where x is infinite or NaN",
    hints=["Try np.float32('inf') - np.float32('inf')."],
    name="where a law breaks",
)
zero

# %% [markdown]
# ## 3. Your first rule
#
# `relu(relu(x))` computes the same as one `relu`. Write the rule, run the cell, and hand it in. The exercise checks its law, and then programs of its own.


# %%
@wb.rule(op("relu", var("x")))
def merge_relu(b, x):
    """relu(relu(x)) → relu(x)"""
    return wb.Decline("not written yet")


relu = teach.WriteRule(
    "Write a rule that makes one relu of two in a row.",
    changes=[
        (
            "x = @param:x -> float_type, {4}\na = relu(x)\nb = relu(a)\n@return(b)",
            "x = @param:x -> float_type, {4}\na = relu(x)\n@return(a)",
        ),
    ],
    leaves=["x = @param:x -> float_type, {4}\na = relu(x)\nb = exp(a)\nc = relu(b)\n@return(c)"],
    hints=[
        "The pattern needs two relu, one in the other, as cancel_neg has two neg.",
        'The pattern is op("relu", op("relu", var("x"))); the function returns b("relu", x).',
    ],
    name="two relu",
)
relu.answer(merge_relu)

# %% [markdown]
# ## 4. Conditions
#
# Multiplying by 1 changes nothing. But the pattern must see that the literal is 1: `literal("one", test)` matches a literal, possibly behind a broadcast,
# that passes a test. `mul` is commutative, so the pattern matches both orders.


# %%
def is_one(instruction):
    """Whether every element of a literal is 1."""
    return bool((instruction.literal.numpy() == 1).all())


@wb.rule(op("mul", var("x"), literal("one", lambda i: True)))
def drop_one(b, x, one):
    """mul(x, 1) → x"""
    return x


scaled = """
x = @param:x -> float_type, {3}
c = @literal{1}
w = multibroadcast[out_lens={3}](c)
y = mul(x, w)
@return(y)
"""
one = teach.WriteRule(
    "The rule above takes any literal for 1. Mend it.",
    changes=[(scaled, "x = @param:x -> float_type, {3}\n@return(x)")],
    leaves=[scaled.replace("{1}", "{2}")],
    hints=["The test of literal() gets the instruction of the literal.", 'literal("one", is_one)'],
    name="times one",
)
one.answer(drop_one)

# %% [markdown]
# The feedback shows the graph before and after the rule on a program that breaks its law. Near misses show the other side: where a rule almost applied, and
# the condition that failed.

# %% [markdown]
# ## 5. Make it pay
#
# `exp(x) * exp(y)` is `exp(x + y)`: one expensive operation less. Write the rule so that one `exp` is left in this program. Hand it in without further
# thought first: the law breaks in a place that few people expect.

# %%
chain = wb.trace(lambda x, y, z: x.exp() * y.exp() * z.exp(), x=(8,), y=(8,), z=(8,))


def exps_left(rule):
    """The number of exp in the program after the rule."""
    if not wb.check_rule(rule, [chain], tolerance=1e-5, count=20):
        raise ValueError("its law does not hold; see wb.check_rule")

    class Pays(RewritePass):
        """A pass with that rule."""

        name = "pays"
        rules = (rule,)

    return sum(i.name == "exp" for i in wb.compile(chain, passes=[Pays()]).program.main)


pay = teach.Goal(
    "Hand in a rule with pay.answer(your_rule): one exp must be left.",
    exps_left,
    1,
    unit="exp",
    hints=[
        'The pattern: op("mul", op("exp", var("x")), op("exp", var("y"))).',
        'The replacement: b("exp", b("add", x, y)).',
        "wb.check_rule(your_rule) shows a program of integers.",
        "A condition: pattern.where(lambda i: i.shape.type.is_float, why).",
        "At the edges of types it need not hold: @wb.rule(pattern, except_at=set(Edge)),",
        "with Edge from workbench.compiler.ir.sampling.",
    ],
    name="fewer exp",
)
pay.answer(drop_one)

# %%
teach.progress()
