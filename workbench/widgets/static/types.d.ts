// Types of the data that Python sends and the modules exchange. Only the type checker reads this file.

declare const PALETTE: {
  families: Record<string, string>; words: Record<string, string>; scales: Record<string, string[]>; glyphs: Record<Mark, string>;
  letters: Record<string, string>;
  selected: string; selectedDark: string; found: string; added: string; removed: string; changed: string; addedDark: string; removedDark: string; changedDark: string;
  nan: string; infinite: string; lost: string;
};

type Mark = "added" | "removed" | "changed";
type Child = Node | string | number | false | null | undefined | Child[];

/** The traits of a view: a model of anywidget's, or what stands in for it on an offline page. */
interface Model {
  get(name: string): any;
  set(name: string, value: unknown): void;
  save_changes(): void;
  send?(content: unknown): void;
  on(event: string, callback: () => void): void;
  off(event: string, callback: () => void): void;
  widget_manager?: { get_model(id: string): Promise<Model> };
}
interface Rendering { model: Model; el: HTMLElement }

// A scene as columns, see payload.py

interface Sizes { left: number[]; right: number[]; height: number[] }
type Pull = Map<number, [number, number][]>;
interface Container { ranks: number[][]; ties: number[]; pulls?: { above: Pull; below: Pull } }
interface Groups { key: string[]; label: string[]; half: Int32Array; header: number[]; body: Int32Array; parent: Int32Array; slot: Int32Array; count: Int32Array }
/** A row per version; the entries of row v of a column of lists end at its `Ends[v]`. */
interface Nodes {
  id: Int32Array; slot: Int32Array; module: Int32Array; look: Int32Array; size: Int32Array; opens: Int32Array;
  arguments: Int32Array; argumentEnds: Int32Array; chips: Int32Array; chipEnds: Int32Array; sources: Int32Array; sourceEnds: Int32Array;
}
/** Nodes of the model, as strings: −1 for an operator and scope that are not known. */
interface Sources { name: Int32Array; op: Int32Array; scope: Int32Array }
/** The words and widths that nodes share. */
interface Looks { title: string[]; fact: string[]; family: number[]; width: number[]; shape: string[]; text: string[] }
interface SceneData {
  title: string; slots: { parent: Int32Array; position: Int32Array }; groups: Groups; edges: Int32Array; firm: number;
  nodes: Nodes; looks: Looks; sizes: Sizes; strings: string[]; sources: Sources; modules: Record<number, string>;
  gradient: Record<number, number>; "gradient of": Record<number, number>;
}
interface GraphData extends SceneData { steps: Int32Array[]; open: string[] }
/** Sentences, and numbers by name, of an instruction of a report. */
interface Numbers { said: string[]; rows: [string, string][] }
interface ReportData extends GraphData { facts: Record<number, Numbers>; live: boolean; stored?: boolean }
interface ExplorerData extends SceneData { steps: Step[]; target: string; sides?: string[]; open: string[]; details?: Detail[]; why?: boolean }

interface Chip { label: string; id: number; port: boolean }
/** One version of an instruction. */
interface Version {
  v: number; id: number; slot: number; module: number; title: string; fact: string; family: number; opens: boolean; width: number;
  inputs: number[]; arguments: number[]; shape: string; text: string; chips: Chip[]; sources: { name: string; op?: string; scope?: string }[];
}

// Where things are

interface Plan { x: Map<number, number>; y: Map<number, number>; bands: [number, number][]; spine: number; width: number; height: number }
/** The room of a slot or group; `g` is the group's number, and `open` whether its inside shows. */
interface Box { i: number; x: number; y: number; cx: number; w: number; h: number; g?: number; open: boolean; depth: number }
type Lane = [number, number, number];
interface Edge { dashed: boolean; source: number; user: number; start: number; end: number; points: number[]; x0: number; y0: number; x1: number; y1: number }
interface Camera { x: number; y: number; k: number }
/** A pane's size; `side` is the width of what covers its right edge. */
interface Extent { w: number; h: number; side?: number }
interface Place { x: number; y: number; w: number; h: number }

/** A box on the canvas: a node or a closed group. */
interface Drawn extends Place {
  title: string; fact: string; family: number; group: boolean; opens: boolean; chips: Chip[]; mark?: Mark;
  selected?: boolean; selectedChip?: number | null; hovered?: boolean; color?: string;
  /** The colours of the blocks of which a closed group consists. */
  strip?: string[];
  /** Whether it is a hit, the number of hits inside it, and whether the overlay has no value for it. */
  found?: boolean; hits?: number; blank?: boolean; starred?: boolean;
}
/** A box that is picked and walked: `own` is its fact without an overlay, `ids` its instructions. */
interface Item extends Drawn { i: number; v?: number; id?: number; ids: number[]; key?: string; own: string; blocks?: number[][] }
interface Theme {
  dark: boolean; page: string; ink: string; soft: string; line: string; frame: string; panel: string; panelLine: string; accent: string;
  chip: string; selected: string; found: string; added: string; removed: string; changed: string; base: string; share: number; families: string[]; fills: string[];
}
interface Overlay {
  name: string; unit: string; scale: string; tolerance: number | null; total: boolean; values: Map<number, number>;
  low: number; high: number; log: boolean; lost: number;
}

// Queries, see query.js

interface Value { words: string; quoted: boolean; pattern: RegExp | null }
type Term =
  | { kind: "or" | "and"; terms: Term[] } | { kind: "not"; term: Term } | { kind: "id"; id: number } | { kind: "name"; name: string }
  | { kind: "text"; value: Value } | { kind: "field"; field: string; value: Value; at: number }
  | { kind: "attr"; key: string; op: string; value: Value | null; at: number }
  | { kind: "compare"; name: string; op: string; number: number; words: string; at: number }
  | { kind: "range"; name: string; low: number; high: number; at: number };
/** The facts of one instruction that a query can ask for. */
interface Facts {
  id: number; name: string; title: string; fact: string; text: string; shape: string; readonly family: string;
  sources: { name: string; scope?: string }[];
}
/** What only some views know, by id; null where a view knows none. */
interface Known {
  overlay: Overlay | null; marks: Map<number, string> | null; rules: Map<number, string> | null;
  passes: Map<number, string> | null; kernels: Map<number, string> | null;
}

// A recording, see steps.py

interface Step { name: string; changed: boolean; made?: number[]; edits: number; before: number; after: number; ms: number; error: string }
interface Sited { file: string; line: number }
interface Edit extends Sited { index: number; rule: string; law: string; ms: number; added: number[]; removed: number[]; changed: number[]; what: string }
interface Miss extends Sited { rule: string; reason: string; instruction: number }
interface Law extends Sited { rule: string; law: string; count: number }
/** The outcome of lowering an instruction, and the place of its value. */
interface Lowered { id: number; kind: string; became: string; place: string }
type DiffRow = [kind: string, id: number, before: string, after?: string];
interface Detail {
  index: number; versions: number; before: Int32Array; after: Int32Array; gone: [number, number][]; come: [number, number][]; replaced: [number, number][];
  summary: string; edits: Edit[]; misses: Miss[]; laws: Law[]; sources: RuleSources; lowered?: Lowered[]; diff: DiffRow[];
  /** What stands for numbers that are still to come: until then only what is outside closed groups is known. */
  partial?: string;
  /** The states after its edits, on a page. */
  within?: Within;
}
interface State { order: Int32Array; marks?: [Marked, Marked]; diff?: [summary: string, rows: DiffRow[]] }
type Marked = [version: number, mark: number][];
/** The text of a rule by `file:line`, with the number of its first line. */
type RuleSources = Record<string, [number, string]>;
/** States within a step, see edit_states.py. */
interface Within {
  index: number; first: number; scene: number; states: [head: number, tail: number, middle: number[]][]; marks: [Marked, Marked][];
  diffs: [summary: string, rows: DiffRow[]][];
  versions: Version[]; modules: Record<number, string>;
}

// Kernels, see kernel_view.py

interface Kernel {
  index: number; id: number; ids: number[]; instruction: string; what: string; name: string; sources: string[]; module: string; search: string;
  ms: number | null; share: number | null; bytes: number; flops: number; grid: string; block: string; items: number; registers: number | null;
  shared: number; local: number; spills: number | null; blocks: number | null; occupancy: number | null; code: number;
}
interface KernelTexts { name: string; source: string; prologue: number; log: string; assembly?: string }
interface KernelData { title: string; rows: Kernel[]; details?: KernelTexts[] }

// The workbench, see workbench_view.py

interface Settings { target: string; device: string; precision: string; off: string[]; order: number[]; seed: number; inputs: string }
interface Choices { pipeline: { label: string; passes: { name: string; summary: string; on: boolean }[] }[]; devices: string[]; target: string }
interface Status { doing: string; what: string; done: number; of: number; error: string; note: string; stale: boolean; has: string[]; why?: Record<string, string> }
interface FrameData {
  title: string; targets: { name: string; missing: string; what: string }[]; precisions: string[]; actions: string[]; shades: string[]; stored?: boolean;
}
interface TableColumn { name: string; kind: string; title?: string; of?: number; bar?: boolean; tolerance?: number; nodes?: boolean }
interface TableRow { id: number; ids: number[]; cells: any[]; marked: boolean }
interface TableData { columns: TableColumn[]; rows: TableRow[]; said: string; notes?: { id: number; text: string; names: Record<string, number>; edit: [step: number, edit: number, words: string] | null }[]; ids?: Record<string, number>; sort: number | null; way: number }
// A tensor beside its reference, see tensor_samples.py and tensor_traits.py

/** Ticks as positions and texts; parts as fill, stroke, whether it is dashed, and path. */
interface Chart { title: string; words: string; x: [number, string][]; y: [number, string][]; parts: [string, string, boolean, string][]; axis?: number }
interface TensorData {
  title: string; statement: string; form: string; lens: number[]; comparable: boolean; distances: [string, string][]; charts: Chart[];
  counts: { value: number[]; reference: number[] }; worst: number[] | null; image: number | null; stored?: boolean; error?: string;
}
interface TensorDetail {
  slice: string; at: string; axes: number[];
  cells: { lens: [number, number]; shape: [number, number]; value: string; reference: string; errors: string; where: string | null; bounds: [number, number]; span: number };
  around: { rows: number[]; columns: number[]; value: string[][]; reference: string[][]; error: string[][] };
  image: { shape: [number, number]; parts: string[]; bounds: [number, number] } | null;
}

// Classes that other modules refer to

type Scene = import("./scene.js").Scene;
type Layout = import("./layout.js").Layout;
type Live = import("./scene.js").Live;
type Pane = import("./pane.js").Pane;
type Context = CanvasRenderingContext2D;
/** The view around a pane: it receives events and answers questions. */
interface Owner {
  theme: Theme; selected: number | null; found: Set<number>; overlay: Overlay | null; bookmarks: { list: Bookmark[] };
  select(id: number | null, pane: Pane | null): void;
  /** Choose a second instruction beside the selected one. */
  pairWith?(id: number): void;
  toggle(key: string): void;
  moved(pane: Pane): void;
  key(event: KeyboardEvent): boolean;
  say(text: string): void;
  empty(): string;
  colorOf(item: Item): { color: string; text: string; strip: string[] } | null;
}
/** The view around a search. */
interface Searched {
  panes: Pane[];
  ids(query: string): number[];
  mark(hits: Set<number> | null): void;
  /** Make room for the list of hits, or take it back. */
  arrange(): void;
  show(id: number): void;
  centre(id: number): void;
  hitText(id: number): { name: string; title: string; fact: string; note: string };
  set(values: Record<string, unknown>): void;
  say(text: string): void;
}
/** An instruction, a pass, or an instruction in a pass, with a note. */
type Bookmark = [id: number | null, step: number | null, note: string];
/** The view around bookmarks. */
interface Bookmarked {
  model: Model; selected: number | null;
  /** The passes, and the one that is shown. */
  steps?: Step[]; index?: number;
  searched(): Live;
  set(values: Record<string, unknown>): void;
  redraw(): void;
  say(text: string): void;
  show(id: number): void;
  go?(step: number, tell: boolean): void;
}
/** The view around a menu of filters. */
interface Filtered {
  selected: number | null; previous: number | null; only: number[] | null; hidden: number[]; search: import("./search.js").Search;
  searched(): Live;
  /** The selected instruction, or those of the closed group with the keyboard's focus; and its name. */
  chosen(): { ids: number[]; name: string };
  isolate(ids: number[]): void;
  hide(): void;
  around(n: number, way: "in" | "out" | "both"): void;
  path(): void;
  showAll(): void;
}
