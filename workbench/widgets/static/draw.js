// Drawing on a canvas: nodes, chips, panels, edges, marks of change; less detail when far away.

const FAMILIES = Object.keys(PALETTE.families);
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const LIGHT = {
  page: "#ffffff", ink: "#1b1f24", soft: "#5d6672", line: "#9aa4b0", frame: "#b9c1ca", panel: "#47586b0f",
  panelLine: "#47586b33", accent: "#0b63ce", chip: "#f1f3f5", added: PALETTE.added, removed: PALETTE.removed,
  changed: PALETTE.changed, selected: PALETTE.selected, found: PALETTE.found, base: "#ffffff", share: 0.17,
};
const DARK = {
  page: "#16181c", ink: "#e8eaed", soft: "#a3acb8", line: "#66707c", frame: "#4d5661", panel: "#a9c0e012",
  panelLine: "#a9c0e030", accent: "#6cb2ff", chip: "#262a30", added: PALETTE.addedDark, removed: PALETTE.removedDark,
  changed: PALETTE.changedDark, selected: PALETTE.selectedDark, found: PALETTE.found, base: "#1c1f24", share: 0.3,
};

/**
 * The font of the texts that follow, which are centred in their height.
 * @param {Context} ctx
 * @param {string} size with the weight, if it is not the usual one
 * @param {CanvasTextAlign} align
 */
function font(ctx, size, align = "left") {
  ctx.font = `${size} ${FONT}`;
  ctx.textAlign = align;
  ctx.textBaseline = "middle";
}

/** @param {string} c `#rrggbb` */
const rgb = (c) => [1, 3, 5].map((k) => parseInt(c.slice(k, k + 2), 16));
/**
 * A colour blended over a base by a share.
 * @param {string} color
 * @param {string} base
 * @param {number} share
 */
const mix = (color, base, share) => {
  const b = rgb(base);
  return "#" + rgb(color).map((v, k) => Math.floor(b[k] + (v - b[k]) * share + 0.5).toString(16).padStart(2, "0")).join("");
};

/**
 * All colours of a theme.
 * @param {boolean} dark
 * @returns {Theme}
 */
function colors(dark) {
  const t = dark ? DARK : LIGHT, families = FAMILIES.map((f) => PALETTE.families[f]);
  return { ...t, dark, families, fills: families.map((c) => mix(c, t.base, t.share)) };
}

/**
 * The colour at a position on a scale, from 0 to 1.
 * @param {string} scale
 * @param {number} share
 */
function sample(scale, share) {
  const stops = PALETTE.scales[scale], at = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  return mix(stops[low + 1], stops[low], at - low);
}

/** Black or white, whichever contrasts better with a colour. @param {string} color */
const inkOn = (color) => {
  const [r, g, b] = rgb(color).map((v) => (v / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000000" : "#ffffff";
};

/**
 * A text, cut to a width.
 * @param {Context} ctx
 * @param {string} text
 * @param {number} width
 */
function fit(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if (ctx.measureText(text.slice(0, mid) + "…").width <= width) low = mid;
    else high = mid - 1;
  }
  return low ? text.slice(0, low) + "…" : "";
}

/**
 * @param {Context} ctx
 * @param {number} x
 * @param {number} y
 * @param {number} w
 * @param {number} h
 * @param {number} r
 */
function rect(ctx, x, y, w, h, r) {
  ctx.beginPath();
  ctx.roundRect(x, y, w, h, r);
}

/**
 * The path of an edge: curves between lanes, straight along them.
 * @param {Context} ctx
 * @param {number[]} p
 * @param {boolean} straight
 */
function traceEdge(ctx, p, straight) {
  ctx.moveTo(p[0], p[1]);
  for (let k = 2; k < p.length; k += 2) {
    const x0 = p[k - 2], y0 = p[k - 1], x1 = p[k], y1 = p[k + 1];
    if (straight || k % 4 === 0 || Math.abs(x1 - x0) < 0.5) ctx.lineTo(x1, y1);
    else if (y1 >= y0) ctx.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1);
    else ctx.bezierCurveTo(x0, y0 + 40, x1, y1 - 40, x1, y1);
  }
}

/**
 * Draw edges, the emphasised ones on top.
 * @param {Context} ctx
 * @param {Edge[]} edges
 * @param {Theme} theme
 * @param {number} k
 * @param {(edge: Edge) => boolean} emphasised
 */
function drawEdges(ctx, edges, theme, k, emphasised) {
  const far = k < 0.35;
  ctx.lineWidth = Math.max(1.1, 0.6 / k);
  ctx.strokeStyle = theme.line;
  ctx.globalAlpha = far ? 0.55 : 0.85;
  for (const dashed of [false, true]) {
    ctx.setLineDash(dashed ? [5, 5] : []);
    ctx.beginPath();
    for (const e of edges) if (e.dashed === dashed && !emphasised(e)) traceEdge(ctx, e.points, far);
    ctx.stroke();
  }
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
  if (!far) heads(ctx, edges.filter((e) => !emphasised(e)), theme.line);
  const strong = edges.filter(emphasised);
  if (!strong.length) return;
  ctx.strokeStyle = theme.selected;
  ctx.lineWidth = Math.max(1.8, 1 / k);
  for (const e of strong) {
    ctx.setLineDash(e.dashed ? [5, 5] : []);
    ctx.beginPath();
    traceEdge(ctx, e.points, far);
    ctx.stroke();
  }
  ctx.setLineDash([]);
  heads(ctx, strong, theme.selected);
}

/**
 * @param {Context} ctx
 * @param {Edge[]} edges
 * @param {string} color
 */
function heads(ctx, edges, color) {
  ctx.fillStyle = color;
  ctx.beginPath();
  for (const { points } of edges) {
    const x = points[points.length - 2], y = points[points.length - 1];
    ctx.moveTo(x, y);
    ctx.lineTo(x - 3.2, y - 5.5);
    ctx.lineTo(x + 3.2, y - 5.5);
  }
  ctx.fill();
}

/**
 * An open group: a quiet tinted panel.
 * @param {Context} ctx
 * @param {Place} box
 * @param {Theme} theme
 * @param {number} k
 * @param {string | undefined} color
 */
function drawPanel(ctx, box, theme, k, color) {
  rect(ctx, box.x, box.y, box.w, box.h, 8);
  ctx.fillStyle = theme.panel;
  ctx.fill();
  ctx.lineWidth = 1 / Math.max(k, 0.5);
  ctx.strokeStyle = color ?? theme.panelLine;
  ctx.stroke();
}

/**
 * The header text of an open panel, above the edges that enter it.
 * @param {Context} ctx
 * @param {Place} box
 * @param {string} label
 * @param {string} count the number of its instructions
 * @param {Theme} theme
 */
function drawHeader(ctx, box, label, count, theme) {
  ctx.strokeStyle = theme.page;
  ctx.lineWidth = 3;
  ctx.fillStyle = theme.soft;
  font(ctx, "600 11px");
  const text = "▾ " + fit(ctx, label, box.w - 58), y = box.y + 13;
  ctx.strokeText(text, box.x + 8, y);
  ctx.fillText(text, box.x + 8, y);
  const at = box.x + 14 + ctx.measureText(text).width;
  font(ctx, "11px");
  ctx.strokeText(count, at, y);
  ctx.fillText(count, at, y);
}

/**
 * A node or a closed group with its marks: selection, change, an overlay's colour.
 * @param {Context} ctx
 * @param {Drawn} b
 * @param {Theme} theme
 * @param {number} k
 */
function drawNode(ctx, b, theme, k) {
  const { x, y, w, h } = b, r = 6;
  const fill = b.color ?? (b.group || b.blank ? theme.chip : theme.fills[b.family]);
  if (b.found || b.hits) halo(ctx, b, theme, k);
  if (b.group && k > 0.2) {
    rect(ctx, x + 3, y + 3, w, h, r);
    ctx.fillStyle = theme.chip;
    ctx.fill();
    ctx.lineWidth = 1;
    ctx.strokeStyle = theme.frame;
    ctx.stroke();
  }
  if (k < 0.2) {
    ctx.fillStyle = b.color ?? mix(b.group || b.blank ? theme.soft : theme.families[b.family], theme.base, b.blank ? 0.3 : 0.55);
    ctx.fillRect(x, y, Math.max(w, 1.5 / k), Math.max(h, 1 / k));
  } else {
    rect(ctx, x, y, w, h, r);
    ctx.fillStyle = fill;
    ctx.fill();
    if (b.blank) hatch(ctx, b, theme.frame, 0.7);
    else stripe(ctx, b, theme);
    rect(ctx, x, y, w, h, r);
    ctx.lineWidth = 1;
    ctx.strokeStyle = b.group || b.blank ? theme.frame : mix(theme.families[b.family], theme.base, 0.6);
    ctx.stroke();
  }
  if (b.mark) drawMark(ctx, b, theme, b.mark, k);
  if (b.selected || b.hovered) ring(ctx, b, theme, k);
  if (b.hits && k > 0.08) badge(ctx, b, theme, k);
  if (k < 0.3) return;
  words(ctx, b, theme, b.color ? inkOn(b.color) : null, k);
  if (b.chips.length && k >= 0.45) drawChips(ctx, b, theme);
}

/**
 * @param {Context} ctx
 * @param {Drawn} b
 * @param {Theme} theme
 */
function stripe(ctx, b, theme) {
  const { x, y, w, h, strip = [] } = b;
  ctx.save();
  ctx.clip();
  ctx.fillStyle = theme.frame;
  if (strip.length) ctx.fillRect(x, y + h - 7, w, 1);
  strip.forEach((color, i) => {
    ctx.fillStyle = color;
    ctx.fillRect(x + i * w / strip.length, y + h - 6, w / strip.length, 6);
  });
  ctx.fillStyle = theme.families[b.family];
  if (!b.group) ctx.fillRect(x, y, 4, h);
  ctx.restore();
}

/**
 * Around a selected node a line at a distance, with squares at its corners; a thin line around the one under the mouse.
 * @param {Context} ctx
 * @param {Drawn} b
 * @param {Theme} theme
 * @param {number} k
 */
function ring(ctx, b, theme, k) {
  const scale = 1 / Math.min(1, Math.max(k, 0.3)), pad = b.selected ? 4.5 * scale : 2.5, x = b.x - pad, y = b.y - pad, w = b.w + 2 * pad, h = b.h + 2 * pad;
  rect(ctx, x, y, w, h, b.selected ? 2 : 8);
  ctx.lineWidth = (b.selected ? 2.2 : 1.2) * scale;
  ctx.strokeStyle = b.selected ? theme.selected : theme.soft;
  ctx.stroke();
  if (!b.selected) return;
  ctx.fillStyle = theme.selected;
  const side = 6 * scale;
  for (const cx of [x, x + w]) for (const cy of [y, y + h]) ctx.fillRect(cx - side / 2, cy - side / 2, side, side);
}

/**
 * A hit, as a marker pen would show it, with a dotted line for those who do not see its colour.
 * @param {Context} ctx
 * @param {Drawn} b
 * @param {Theme} theme
 * @param {number} k
 */
function halo(ctx, b, theme, k) {
  if (k < 0.15) {
    const w = Math.max(b.w + 4 / k, 9 / k), h = Math.max(b.h, 3 / k);
    const x = b.x + b.w / 2 - w / 2;
    ctx.fillStyle = theme.ink;
    for (const edge of [x - 1 / k, x + w]) ctx.fillRect(edge, b.y, 1 / k, h);
    ctx.fillStyle = theme.found;
    ctx.fillRect(x, b.y, w, h);
    return;
  }
  const scale = 1 / Math.min(1, k), pad = 2 * scale;
  rect(ctx, b.x - pad, b.y - pad, b.w + 2 * pad, b.h + 2 * pad, 8);
  ctx.strokeStyle = ctx.fillStyle = theme.found;
  ctx.lineWidth = 5 * scale;
  ctx.stroke();
  if (k < 0.2) return;
  rect(ctx, b.x - 2 * pad, b.y - 2 * pad, b.w + 4 * pad, b.h + 4 * pad, 9);
  ctx.lineWidth = 1.2 * scale;
  ctx.strokeStyle = theme.ink;
  ctx.setLineDash([1.5 * scale, 3 * scale]);
  ctx.stroke();
  ctx.setLineDash([]);
}

/**
 * The number of hits inside a box, at its corner; it stays readable when far away.
 * @param {Context} ctx
 * @param {Drawn} b
 * @param {Theme} theme
 * @param {number} k
 */
function badge(ctx, b, theme, k) {
  const scale = 1 / Math.min(1, Math.max(k, 0.12)), text = (b.hits ?? 0).toLocaleString("en");
  font(ctx, `700 ${11 * scale}px`, "center");
  const w = ctx.measureText(text).width + 10 * scale, h = 16 * scale, x = b.x + b.w - w + 8, y = b.y - h / 2;
  rect(ctx, x, y, w, h, h / 2);
  ctx.fillStyle = theme.found;
  ctx.fill();
  ctx.lineWidth = scale;
  ctx.strokeStyle = "#000000";
  ctx.stroke();
  ctx.fillStyle = "#000000";
  ctx.fillText(text, x + w / 2, y + h / 2 + 0.5 * scale);
}

/**
 * @param {Context} ctx
 * @param {Place} b
 * @param {string} color
 * @param {number} alpha
 */
function hatch(ctx, b, color, alpha) {
  ctx.save();
  ctx.clip();
  ctx.globalAlpha *= alpha;
  ctx.strokeStyle = color;
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  for (let d = -b.h; d < b.w; d += 7) {
    ctx.moveTo(b.x + d, b.y + b.h);
    ctx.lineTo(b.x + d + b.h, b.y);
  }
  ctx.stroke();
  ctx.restore();
}

/**
 * @param {Context} ctx
 * @param {Drawn} b
 * @param {Theme} theme
 * @param {string | null} ink
 * @param {number} k
 */
function words(ctx, b, theme, ink, k) {
  const two = b.fact && b.h > 30, middle = b.y + b.h / 2;
  ctx.fillStyle = ink ?? theme.ink;
  font(ctx, "600 12px");
  const left = b.x + 12, room = b.w - 20;
  ctx.fillText(fit(ctx, (b.opens ? "▸ " : "") + (b.starred ? "★ " : "") + b.title, room), left, two ? middle - 8 : middle + 0.5);
  if (!two || k < 0.45) return;
  ctx.fillStyle = ink ?? theme.soft;
  font(ctx, "11px");
  ctx.fillText(fit(ctx, b.fact, room), left, middle + 8.5);
}

/**
 * `+` solid blue border, `−` hatched orange, `~` dashed: never colour alone.
 * @param {Context} ctx
 * @param {Drawn} b
 * @param {Theme} theme
 * @param {Mark} mark
 * @param {number} k
 */
function drawMark(ctx, b, theme, mark, k) {
  const color = theme[mark];
  rect(ctx, b.x, b.y, b.w, b.h, 6);
  if (mark === "removed" && k > 0.15) {
    hatch(ctx, b, color, 0.35);
    rect(ctx, b.x, b.y, b.w, b.h, 6);
  }
  ctx.strokeStyle = color;
  ctx.lineWidth = (mark === "added" ? 2.4 : 1.8) / Math.max(0.35, Math.min(1, k));
  if (mark === "changed") ctx.setLineDash([5, 3]);
  ctx.stroke();
  ctx.setLineDash([]);
  if (k < 0.3) return;
  ctx.fillStyle = color;
  ctx.beginPath();
  ctx.arc(b.x, b.y + 1, 8, 0, 7);
  ctx.fill();
  ctx.fillStyle = inkOn(color);
  font(ctx, "700 13px", "center");
  ctx.fillText(PALETTE.glyphs[mark], b.x, b.y + 1.5);
}

/**
 * The chips' rectangles beside a node: at most two, of which the second may count the rest.
 * @param {Drawn} b
 */
function chipRows(b) {
  const chips = b.chips, shown = chips.slice(0, 2), h = 16;
  const top = b.y + (b.h - shown.length * (h + 3) + 3) / 2;
  return shown.map((chip, k) => {
    const more = k === 1 && chips.length > 2;
    return { chip, x: b.x + b.w + 4, y: top + k * (h + 3), h, text: more ? `${chips.length - 1} more` : chip.label, w: 0 };
  });
}

/**
 * @param {Context} ctx
 * @param {Drawn} b
 * @param {Theme} theme
 */
function drawChips(ctx, b, theme) {
  font(ctx, "10px");
  for (const c of chipRows(b)) {
    c.w = ctx.measureText(c.text).width + 19;
    rect(ctx, c.x, c.y, c.w, c.h, 4);
    ctx.fillStyle = theme.chip;
    ctx.fill();
    ctx.lineWidth = b.selectedChip === c.chip.id ? 2 : 1;
    ctx.strokeStyle = b.selectedChip === c.chip.id ? theme.selected : theme.frame;
    ctx.stroke();
    ctx.fillStyle = theme.soft;
    if (c.chip.port) {
      ctx.beginPath();
      ctx.moveTo(c.x + 5, c.y + 5);
      ctx.lineTo(c.x + 11, c.y + 8);
      ctx.lineTo(c.x + 5, c.y + 11);
      ctx.fill();
    } else ctx.fillRect(c.x + 5, c.y + 5, 6, 6);
    ctx.fillStyle = theme.ink;
    ctx.fillText(c.text, c.x + 14, c.y + 8.5);
  }
}

/**
 * A value's shape beside its edge; drawn on hover, and on all edges when near.
 * @param {Context} ctx
 * @param {Edge} e
 * @param {string} text
 * @param {Theme} theme
 */
function drawEdgeLabel(ctx, e, text, theme) {
  const x = e.points[0], y = e.points[1] + 12;
  font(ctx, "10px", "center");
  const w = ctx.measureText(text).width + 8;
  rect(ctx, x - w / 2, y - 7.5, w, 15, 4);
  ctx.fillStyle = theme.page;
  ctx.globalAlpha = 0.92;
  ctx.fill();
  ctx.globalAlpha = 1;
  ctx.fillStyle = theme.soft;
  ctx.fillText(text, x, y + 0.5);
}

export { chipRows, colors, drawEdgeLabel, drawEdges, drawHeader, drawNode, drawPanel, inkOn, rgb, sample };
