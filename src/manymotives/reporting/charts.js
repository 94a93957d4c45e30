// Figures: data in, SVG out. Names reach the page as text nodes only.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const RAMP = ["#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838"]; // cividis: one scale for all eyes, and in grey
const SHAPES = ["circle", "square", "diamond", "triangle", "cross", "ring", "bar", "star"];
const GROUPS = ["--blue", "--orange", "--green", "--pink", "--sky", "--red", "--olive", "--grey"];

function put(parent, name, attributes = {}, text = null) {
  const made = document.createElementNS(SVG, name);
  for (const [word, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(word, value);
  if (text !== null) made.textContent = text;
  parent.append(made);
  return made;
}

function canvas(box, height) {
  const width = Math.max(260, Math.floor(box.clientWidth || 700));
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  box.replaceChildren(svg);
  return { svg, width };
}

function scale(low, high, from, to) {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
}

function ticks(low, high, wanted) {
  const rough = (high - low || 1) / wanted;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * size).find((s) => s >= rough * 0.999);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-6 && found.length < 30; n++) found.push(n === 0 ? 0 : n * step);
  return found;
}

const tidy = (x) => (x === null || x === undefined ? "–" : String(+x.toPrecision(3)).replace("-", "−"));
const clip = (name, length) => ([...name].length <= length ? name : [...name].slice(0, length - 1).join("") + "…");

function colour(share) {
  const at = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1);
  const [a, b] = [RAMP[Math.floor(at)], RAMP[Math.ceil(at)]];
  const mix = [1, 3, 5].map((i) => {
    const [x, y] = [parseInt(a.slice(i, i + 2), 16), parseInt(b.slice(i, i + 2), 16)];
    return Math.round(x + (y - x) * (at - Math.floor(at)));
  });
  return `rgb(${mix})`;
}
const ink = (share) => (share > 0.5 ? "#000" : "#fff");

function axis(svg, x, low, high, top, bottom, unit, width) {
  for (const at of ticks(low, high, Math.max(4, Math.min(8, (x(high) - x(low)) / 70)))) {
    put(svg, "line", { x1: x(at), x2: x(at), y1: top, y2: bottom, class: "grid" });
    put(svg, "text", { x: x(at), y: bottom + 15, class: "tick", "text-anchor": "middle" }, tidy(at));
  }
  put(svg, "text", { x: (x(low) + x(high)) / 2, y: bottom + 33, class: "unit", "text-anchor": "middle" }, unit);
}

function legend(svg, items, y, width) {
  let x = 8, line = y;
  for (const [kind, words] of items) {
    const size = 26 + 6.3 * words.length + 14;
    if (x + size > width && x > 8) { x = 8; line += 18; }
    if (kind === "band") put(svg, "rect", { x, y: line - 6, width: 20, height: 9, class: "prior" });
    if (kind === "line") put(svg, "line", { x1: x, x2: x + 20, y1: line - 1, y2: line - 1, class: "post" });
    if (kind === "dot") put(svg, "circle", { cx: x + 10, cy: line - 1, r: 4, class: "dot" });
    if (kind === "truth") put(svg, "path", { d: mark("diamond", x + 10, line - 1, 5), class: "truth" });
    if (kind === "off") put(svg, "circle", { cx: x + 10, cy: line - 1, r: 4.5, class: "off" });
    put(svg, "text", { x: x + 26, y: line + 3, class: "tick" }, words);
    x += size;
  }
  return line + 14;
}

function legendHeight(items, width) {
  let x = 8, lines = 1;
  for (const [, words] of items) {
    const size = 40 + 6.3 * words.length;
    if (x + size > width && x > 8) { x = 8; lines += 1; }
    x += size;
  }
  return lines * 18 + 6;
}

function mark(shape, x, y, r) {
  const dots = (pairs) => "M" + pairs.map(([a, b]) => `${x + a * r},${y + b * r}`).join("L") + "Z";
  if (shape === "square") return dots([[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]]);
  if (shape === "diamond") return dots([[0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]]);
  if (shape === "triangle") return dots([[0, -1.2], [1.1, 0.9], [-1.1, 0.9]]);
  if (shape === "cross") return dots([[-0.35, -1.1], [0.35, -1.1], [0.35, -0.35], [1.1, -0.35], [1.1, 0.35], [0.35, 0.35], [0.35, 1.1], [-0.35, 1.1], [-0.35, 0.35], [-1.1, 0.35], [-1.1, -0.35], [-0.35, -0.35]]);
  if (shape === "bar") return dots([[-1.2, -0.5], [1.2, -0.5], [1.2, 0.5], [-1.2, 0.5]]);
  if (shape === "star") return dots([...Array(10).keys()].map((i) => [Math.sin((i * Math.PI) / 5) * (i % 2 ? 0.55 : 1.3), -Math.cos((i * Math.PI) / 5) * (i % 2 ? 0.55 : 1.3)]));
  return `M${x - r},${y}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0Z`;
}

// ---- rows of intervals: rewards, temperatures, checks, comparisons -----------------------------------------------------

function intervals(box, spec) {
  const rows = spec.rows;
  const thick = rows.length > 60 ? 9 : rows.length > 30 ? 15 : 21;
  const named = thick > 9;
  const key = spec.legend || [];
  const width = Math.max(260, box.clientWidth || 700);
  const room = named ? Math.min(width * (spec.names || 0.36), 12 + 7.4 * Math.max(6, ...rows.map((r) => [...r.label].length))) : 12;
  const above = legendHeight(key, width) + 6;
  const { svg } = canvas(box, above + rows.length * thick + 46);
  legend(svg, key, 12, width);
  const ends = rows.flatMap((r) => [r.lo, r.hi, r.mid, r.plo, r.phi, r.truth]).filter((v) => v !== null && v !== undefined);
  let low = Math.min(...ends, ...(spec.include || [])), high = Math.max(...ends, ...(spec.include || []));
  const pad = (high - low || 1) * 0.03;
  if (!(spec.include || []).includes(low)) low -= pad;
  if (!(spec.include || []).includes(high)) high += pad;
  const x = scale(low, high, room + 6, width - 14);
  const bottom = above + rows.length * thick;
  axis(svg, x, low, high, above, bottom, spec.unit, width);
  if (spec.line !== undefined) put(svg, "line", { x1: x(spec.line), x2: x(spec.line), y1: above, y2: bottom, class: "zero" });
  rows.forEach((row, number) => {
    const y = above + (number + 0.5) * thick;
    const group = put(svg, "g", { class: "row", "data-tip": row.tip, tabindex: named ? 0 : null, "aria-label": row.tip });
    put(group, "rect", { x: 0, y: y - thick / 2, width, height: thick, class: "hit" });
    if (row.gap) put(svg, "line", { x1: 0, x2: width, y1: y - thick / 2, y2: y - thick / 2, class: "cut" });
    if (named) put(group, "text", { x: room, y: y + 4, class: "name", "text-anchor": "end" }, clip(row.label, Math.floor((room - 8) / 7.2)));
    if (row.plo !== undefined && row.plo !== null)
      put(group, "rect", { x: x(row.plo), y: y - thick * 0.28, width: Math.max(1, x(row.phi) - x(row.plo)), height: thick * 0.56, class: "prior" });
    if (row.lo !== undefined && row.lo !== null) put(group, "line", { x1: x(row.lo), x2: x(row.hi), y1: y, y2: y, class: "post" });
    put(group, "circle", { cx: x(row.mid), cy: y, r: named ? 4 : 2.6, class: row.off ? "off" : "dot" });
    if (row.truth !== undefined && row.truth !== null) put(group, "path", { d: mark("diamond", x(row.truth), y, named ? 5 : 3), class: "truth" });
  });
}

// ---- arrows and scales of maps (maps.js) -----------------------------------------------------------------------------

function arrow(group, x, y, r, [dx, dy, strength]) {
  const length = Math.hypot(dx, dy);
  if (length < 1e-6) { put(group, "circle", { cx: x, cy: y, r: r * 0.35, class: "stay", "stroke-opacity": strength }); return; }
  const [a, b] = [dx / length, -dy / length];
  const tip = [x + a * r, y + b * r], tail = [x - a * r, y - b * r], wing = r * 0.45;
  const side = (s) => `${tip[0] - a * wing + s * b * wing},${tip[1] - b * wing - s * a * wing}`;
  put(group, "path", { d: `M${tail}L${tip}M${side(1)}L${tip}L${side(-1)}`, class: "arrow", "stroke-opacity": strength });
}

function colourBar(svg, spec, x, y, width) {
  for (let i = 0; i < 40; i++) put(svg, "rect", { x: x + (i * width) / 40, y, width: width / 40 + 0.5, height: 10, fill: colour((i + 0.5) / 40) });
  const place = scale(spec.low, spec.high, x, x + width);
  for (const at of ticks(spec.low, spec.high, 4)) put(svg, "text", { x: place(at), y: y + 23, class: "tick", "text-anchor": "middle" }, tidy(at));
  put(svg, "text", { x, y: y + 37, class: "unit" }, spec.unit);
}

// ---- heat maps -----------------------------------------------------------------------------------------------------

function heat(box, spec) {
  const width = Math.max(260, box.clientWidth || 700);
  const longest = Math.max(...spec.rows.map((r) => [...r].length), 3);
  const room = Math.min(width * 0.28, 10 + 7.4 * longest);
  const turned = Math.max(...spec.cols.map((c) => [...c].length)) * 6.6 > Math.min(44, (width - room - 6) / spec.cols.length) - 2;
  const size = Math.max(4, Math.min(44, (width - room - (turned ? 46 : 6)) / spec.cols.length));
  const deep = Math.max(8, Math.min(24, size, 900 / spec.rows.length));
  const names = size >= 11 && spec.cols.length <= 60;
  const head = names ? (turned ? Math.min(112, 14 + 6.2 * Math.max(...spec.cols.map((c) => [...c].length))) : 20) : 6;
  const { svg } = canvas(box, head + deep * spec.rows.length + 60);
  const share = (v) => (v - spec.low) / (spec.high - spec.low || 1);
  if (names) spec.cols.forEach((name, c) => {
    const x = room + (c + 0.5) * size;
    const rotate = turned ? `rotate(-60 ${x} ${head - 5})` : null;
    put(svg, "text", { x, y: head - 5, class: "tick", "text-anchor": turned ? "start" : "middle", transform: rotate }, clip(name, 15));
  });
  spec.rows.forEach((name, r) => {
    const y = head + r * deep;
    if (deep >= 11) put(svg, "text", { x: room - 5, y: y + deep / 2 + 4, class: "name", "text-anchor": "end" }, clip(name, Math.floor((room - 8) / 7.2)));
    spec.cols.forEach((column, c) => {
      const value = spec.values[r][c];
      if (value === null) return;
      put(svg, "rect", { x: room + c * size, y, width: size - (size > 8 ? 1 : 0), height: deep - (deep > 8 ? 1 : 0), fill: colour(share(value)), "data-tip": `${name} · ${column}: ${tidy(value)}` });
    });
  });
  colourBar(svg, spec, room, head + deep * spec.rows.length + 8, Math.min(280, width - room - 14));
}

// ---- points --------------------------------------------------------------------------------------------------------

function points(box, spec) {
  const width = Math.min(540, Math.max(260, box.clientWidth || 540));
  const xs = spec.points.map((p) => p.x), ys = spec.points.map((p) => p.y);
  const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const span = Math.max(x1 - x0, y1 - y0, 1e-9);
  const zoom = (width - 90) / span;
  const height = Math.max(150, (y1 - y0) * zoom + 70);
  const { svg } = canvas(box, height + 26);
  const at = (p) => [width / 2 + (p.x - (x0 + x1) / 2) * zoom, height / 2 - (p.y - (y0 + y1) / 2) * zoom];
  put(svg, "rect", { x: 0.5, y: 0.5, width: width - 1, height: height - 1, class: "frame" });
  const step = ticks(0, span, 4)[1] || span;
  put(svg, "line", { x1: 12, x2: 12 + step * zoom, y1: height + 12, y2: height + 12, class: "ruler" });
  put(svg, "text", { x: 18 + step * zoom, y: height + 16, class: "tick" }, `a distance of ${tidy(step)}`);
  const taken = [];
  spec.points.forEach((p) => {
    const [x, y] = at(p);
    put(svg, "path", { d: mark(SHAPES[p.group % 8], x, y, 6), style: `fill:var(${GROUPS[p.group % 8]})`, class: "point", "data-tip": p.tip, tabindex: 0, "aria-label": p.tip });
    taken.push([x - 7, y - 7, x + 7, y + 7]);
  });
  const fits = (b) => b[0] > 2 && b[2] < width - 2 && b[1] > 2 && b[3] < height - 2 && taken.every((t) => b[2] < t[0] || b[0] > t[2] || b[3] < t[1] || b[1] > t[3]);
  spec.points.forEach((p) => {
    const [x, y] = at(p), name = clip(p.label, 16), w = name.length * 6.6;
    const spots = [[x + 9, y + 4, "start"], [x - 9, y + 4, "end"], [x, y - 10, "middle"], [x, y + 19, "middle"]];
    for (const [tx, ty, anchor] of spots) { // only where it covers nothing: the others are read by hovering
      const left = anchor === "start" ? tx : anchor === "end" ? tx - w : tx - w / 2;
      const area = [left, ty - 10, left + w, ty + 3];
      if (fits(area)) { put(svg, "text", { x: tx, y: ty, class: "name", "text-anchor": anchor }, name); taken.push(area); break; }
    }
  });
}

function agreement(box, spec) {
  const width = Math.min(480, Math.max(260, box.clientWidth || 480));
  const side = width - 62, top = legendHeight(spec.legend, width) + 4;
  const { svg } = canvas(box, top + side + 46);
  legend(svg, spec.legend, 12, width);
  const x = scale(0, 1, 48, 48 + side), y = scale(0, 1, top + side, top);
  for (const at of [0, 0.25, 0.5, 0.75, 1]) {
    put(svg, "line", { x1: x(at), x2: x(at), y1: top, y2: top + side, class: "grid" });
    put(svg, "line", { x1: x(0), x2: x(1), y1: y(at), y2: y(at), class: "grid" });
    put(svg, "text", { x: x(at), y: top + side + 15, class: "tick", "text-anchor": "middle" }, tidy(at));
    put(svg, "text", { x: 42, y: y(at) + 4, class: "tick", "text-anchor": "end" }, tidy(at));
  }
  put(svg, "text", { x: x(0.5), y: top + side + 33, class: "unit", "text-anchor": "middle" }, spec.unit);
  put(svg, "text", { x: 12, y: y(0.5), class: "unit", "text-anchor": "middle", transform: `rotate(-90 12 ${y(0.5)})` }, spec.unit_y);
  put(svg, "line", { x1: x(0), x2: x(1), y1: y(0), y2: y(1), class: "zero" });
  spec.points.forEach((p) => {
    const group = put(svg, "g", { "data-tip": p.tip });
    put(group, "line", { x1: x(p.x), x2: x(p.x), y1: y(p.lo), y2: y(p.hi), class: "whisker" });
    put(group, "circle", { cx: x(p.x), cy: y(p.y), r: p.r, class: p.off ? "off" : "dot faint" });
  });
}
