// Figures of motives that switch: a colour and a shape for each motive, the same in all of them.
"use strict";

const tint = (k) => `var(${GROUPS[k % 8]})`;

// names of motives beside their colours; what else a figure has follows. The height it takes.
function motiveLegend(svg, names, more, width) {
  let x = 8, line = 12;
  const next = (words) => {
    const size = 40 + 6.3 * words.length;
    if (x + size > width && x > 8) { x = 8; line += 18; }
    return size;
  };
  names.forEach((name, k) => {
    const size = next(name);
    if (svg) {
      put(svg, "path", { d: mark(SHAPES[k % 8], x + 10, line - 1, 5), style: `fill:${tint(k)}` });
      put(svg, "text", { x: x + 24, y: line + 3, class: "tick" }, name);
    }
    x += size;
  });
  for (const [, words] of more) {
    const size = next(words);
    if (svg) {
      put(svg, "rect", { x, y: line - 6, width: 20, height: 9, class: "prior" });
      put(svg, "text", { x: x + 26, y: line + 3, class: "tick" }, words);
    }
    x += size;
  }
  return line + 14;
}

// ---- rows of intervals with a mark for each motive -----------------------------------------------------------------

function dodged(box, spec) {
  const { rows, names } = spec;
  const width = Math.max(260, box.clientWidth || 700);
  const thick = Math.max(22, 6 + 9 * names.length);
  const room = Math.min(width * 0.36, 12 + 7.4 * Math.max(6, ...rows.map((r) => [...r.label].length)));
  const above = motiveLegend(null, names, spec.legend, width) + 6;
  const { svg } = canvas(box, above + rows.length * thick + 46);
  motiveLegend(svg, names, spec.legend, width);
  const ends = rows.flatMap((r) => [...r.marks.flat(), r.plo, r.phi]).filter((v) => v !== null && v !== undefined);
  const fixed = spec.include || [];
  let low = Math.min(...ends, ...fixed), high = Math.max(...ends, ...fixed);
  const pad = (high - low || 1) * 0.03;
  if (!fixed.includes(low)) low -= pad;
  if (!fixed.includes(high)) high += pad;
  const x = scale(low, high, room + 8, width - 14), bottom = above + rows.length * thick;
  axis(svg, x, low, high, above, bottom, spec.unit, width);
  if (spec.line !== undefined) put(svg, "line", { x1: x(spec.line), x2: x(spec.line), y1: above, y2: bottom, class: "zero" });
  rows.forEach((row, number) => {
    const top = above + number * thick;
    const tip = [row.label, ...row.marks.map(([mid, lo, hi], k) => `${names[k]}: ${tidy(mid)} (${spec.level || 95} %: ${tidy(lo)} to ${tidy(hi)})`)];
    if (row.plo !== null) tip.push(`prior, 95 %: ${tidy(row.plo)} to ${tidy(row.phi)}`);
    const group = put(svg, "g", { class: "row", "data-tip": tip.join("\n"), tabindex: 0, "aria-label": tip.join("\n") });
    put(group, "rect", { x: 0, y: top, width, height: thick, class: "hit" });
    if (row.plo !== null) put(group, "rect", { x: x(row.plo), y: top + 2, width: Math.max(1, x(row.phi) - x(row.plo)), height: thick - 4, class: "prior", "fill-opacity": 0.6 });
    put(group, "text", { x: room, y: top + thick / 2 + 4, class: "name", "text-anchor": "end" }, clip(row.label, Math.floor((room - 8) / 7.2)));
    row.marks.forEach(([mid, lo, hi], k) => {
      const y = top + thick / 2 + (k - (row.marks.length - 1) / 2) * 9;
      put(group, "line", { x1: x(lo), x2: x(hi), y1: y, y2: y, style: `stroke:${tint(k)};stroke-width:2.2` });
      put(group, "path", { d: mark(SHAPES[k % 8], x(mid), y, 4), style: `fill:${tint(k)}` });
    });
    if (number) put(svg, "line", { x1: 0, x2: width, y1: top, y2: top, class: "grid" });
  });
}

// ---- bands: probabilities of motives along episodes --------------------------------------------------------------

// one episode from x to x + wide: pieces at `at` of `length` steps, probabilities in per cent
function band(svg, row, names, x, y, wide, tall) {
  const place = (step) => x + (step / row.length) * wide;
  const edges = [...row.at, row.length];
  const whole = row.p.map((p) => p.reduce((sum, one) => sum + one, 0) || 100);
  put(svg, "rect", { x, y, width: wide, height: tall, class: "prior" });
  const below = row.p.map(() => 0);
  names.forEach((_, k) => {
    const under = [...below];
    row.p.forEach((p, i) => { below[i] += (p[k] / Math.max(whole[i], 100)) * tall; });
    const there = row.p.map((_, i) => `${place(edges[i])},${y + below[i]}L${place(edges[i + 1])},${y + below[i]}`);
    const back = row.p.map((_, i) => `${place(edges[i + 1])},${y + under[i]}L${place(edges[i])},${y + under[i]}`).reverse();
    put(svg, "path", { d: `M${[...there, ...back].join("L")}Z`, style: `fill:${tint(k)}` });
  });
  for (const gap of row.gaps) put(svg, "rect", { x: place(gap) - 1, y: y - 1, width: 2, height: tall + 2, class: "gap" });
  return { place, edges };
}

function bands(box, spec) {
  const { rows, names, states } = spec;
  const width = Math.max(260, box.clientWidth || 700);
  const room = Math.min(width * 0.24, 12 + 7.2 * Math.max(...rows.map((r) => [...r.label].length)));
  const above = motiveLegend(null, names, [], width) + 6, deep = 44, tall = 32;
  const longest = Math.max(...rows.map((r) => r.length));
  const { svg } = canvas(box, above + rows.length * deep + 36);
  motiveLegend(svg, names, [], width);
  const x = scale(0, longest, room + 8, width - 14);
  rows.forEach((row, number) => {
    const y = above + number * deep;
    put(svg, "text", { x: room, y: y + tall / 2 + 4, class: "name", "text-anchor": "end" }, clip(row.label, Math.floor((room - 4) / 7)));
    const { place, edges } = band(svg, row, names, x(0), y, x(row.length) - x(0), tall);
    row.p.forEach((p, i) => {
      const steps = edges[i + 1] - edges[i] > 1 ? `steps ${edges[i] + 1} to ${edges[i + 1]}` : `step ${edges[i] + 1}`;
      const said = names.map((name, k) => `${name}: ${p[k]} %`).join("\n");
      put(svg, "rect", { x: place(edges[i]), y, width: Math.max(0.5, place(edges[i + 1]) - place(edges[i])), height: tall, class: "hit", "data-tip": `${row.label}, ${steps}\nin ${states[row.state[i]]}\n${said}` });
    });
  });
  const bottom = above + rows.length * deep - (deep - tall);
  for (const at of ticks(0, longest, Math.max(3, Math.min(8, width / 110))).filter(Number.isInteger)) put(svg, "text", { x: x(at), y: bottom + 17, class: "tick", "text-anchor": "middle" }, tidy(at));
  put(svg, "text", { x: (x(0) + x(longest)) / 2, y: bottom + 33, class: "unit", "text-anchor": "middle" }, "steps since the episode began");
}

// ---- one episode, step by step -----------------------------------------------------------------------------------

function walk(box, spec) {
  const now = Math.min(chosen.walk, spec.state.length - 1), names = spec.names;
  const width = Math.max(260, box.clientWidth || 700);
  const wide = spec.layout && width > 560;
  const map = spec.layout ? Math.min(wide ? width * 0.5 : width, 380) : 0;
  const high = spec.layout ? walkMap(null, spec, now, map) : 0;
  const bars = 56 + 26 * names.length;
  const top = wide ? Math.max(high, bars) : high + bars;
  const { svg } = canvas(box, top + 64);
  if (spec.layout) walkMap(svg, spec, now, map);
  const left = wide ? map + 24 : 8, y0 = wide ? 0 : high;
  const action = spec.action[now];
  const lines = [`step ${now + 1} of ${spec.state.length}, in ${spec.states[spec.state[now]]}`, action < 0 ? "no choice recorded" : `chose ${spec.actions[action]}`];
  lines.forEach((words, i) => put(svg, "text", { x: left, y: y0 + 18 + 19 * i, class: "name" }, clip(words, Math.floor((width - left) / 7))));
  const label = Math.min(110, 14 + 7 * Math.max(...names.map((n) => n.length)));
  const x = scale(0, 100, left + label, width - 58);
  names.forEach((name, k) => {
    const y = y0 + 50 + 26 * k, share = spec.p[now][k];
    put(svg, "text", { x: left + label - 8, y: y + 14, class: "name", "text-anchor": "end" }, name);
    put(svg, "rect", { x: x(0), y, width: x(100) - x(0), height: 19, class: "prior", "fill-opacity": 0.5 });
    put(svg, "rect", { x: x(0), y, width: x(share) - x(0), height: 19, style: `fill:${tint(k)}` });
    put(svg, "text", { x: x(100) + 8, y: y + 14, class: "name" }, `${share} %`);
  });
  const row = { length: spec.state.length, at: spec.state.map((_, i) => i), p: spec.p, gaps: spec.gaps };
  const { place } = band(svg, row, names, 8, top + 14, width - 16, 30);
  put(svg, "rect", { x: place(now), y: top + 10, width: Math.max(2, place(now + 1) - place(now)), height: 38, class: "cursor" });
}

// where the subject is; its height when nothing is to be drawn yet
function walkMap(svg, spec, now, side) {
  const { xy, edges, size, owner } = spec.layout, trail = 12;
  const xs = xy.map((p) => p[0]), ys = xy.map((p) => p[1]), margin = size * 0.65;
  const [x0, x1, y0, y1] = [Math.min(...xs) - margin, Math.max(...xs) + margin, Math.min(...ys) - margin, Math.max(...ys) + margin];
  const zoom = Math.min((side - 8) / (x1 - x0), 300 / (y1 - y0), 64 / size);
  if (!svg) return (y1 - y0) * zoom + 10;
  const at = ([x, y]) => [4 + (x - x0) * zoom, 4 + (y1 - y) * zoom];
  put(svg, "path", { d: edges.map(([a, b]) => "M" + at(xy[a]).join() + "L" + at(xy[b]).join()).join(""), class: "edge" });
  const r = Math.max(2.5, size * zoom * 0.3);
  xy.forEach((spot, i) => { const [x, y] = at(spot); put(svg, "circle", { cx: x, cy: y, r, class: "place", fill: "var(--paper)", "data-tip": spec.states.filter((_, s) => owner[s] === i).slice(0, 4).join("\n") }); });
  const from = Math.max(0, now - trail, ...spec.gaps.filter((gap) => gap <= now));
  const most = (step) => spec.p[step].indexOf(Math.max(...spec.p[step]));
  for (let step = from; step < now; step++) {
    const [a, b] = [at(xy[owner[spec.state[step]]]), at(xy[owner[spec.state[step + 1]]])];
    put(svg, "line", { x1: a[0], y1: a[1], x2: b[0], y2: b[1], style: `stroke:${tint(most(step))};stroke-width:3`, "stroke-opacity": 0.25 + (0.75 * (step - from + 1)) / (now - from), "stroke-linecap": "round" });
  }
  const [x, y] = at(xy[owner[spec.state[now]]]);
  put(svg, "circle", { cx: x, cy: y, r: r * 1.15, style: `fill:${tint(most(now))};stroke:var(--ink);stroke-width:2.5` });
  return 0;
}

// ---- transition probabilities ------------------------------------------------------------------------------------

function matrix(box, spec) {
  const { cells, names } = spec, count = names.length;
  const width = Math.min(Math.max(260, box.clientWidth || 700), 130 + 130 * count);
  const room = Math.min(width * 0.28, 24 + 7.4 * Math.max(...names.map((n) => n.length)));
  const size = (width - room - 8) / count, tall = Math.max(34, Math.min(56, size * 0.6)), head = 44;
  const { svg } = canvas(box, head + count * tall + 12);
  put(svg, "text", { x: room + (size * count) / 2, y: 14, class: "unit", "text-anchor": "middle" }, "motive at the next step");
  names.forEach((name, k) => {
    put(svg, "text", { x: room + (k + 0.5) * size, y: 34, class: "name", "text-anchor": "middle", style: `fill:${tint(k)}` }, clip(name, Math.floor(size / 6.5)));
    put(svg, "text", { x: room - 8, y: head + (k + 0.5) * tall + 4, class: "name", "text-anchor": "end", style: `fill:${tint(k)}` }, name);
  });
  cells.forEach((row, j) => row.forEach(([mean, low, high], k) => {
    const x = room + k * size, y = head + j * tall;
    const said = `${tidy(Math.round(low * 1000) / 1000)} to ${tidy(Math.round(high * 1000) / 1000)}`;
    const group = put(svg, "g", { "data-tip": `from ${names[j]} to ${names[k]}: ${mean.toFixed(3)}\n95 %: ${said}`, tabindex: 0 });
    put(group, "rect", { x, y, width: size - 2, height: tall - 2, rx: 3, fill: colour(mean) });
    put(group, "text", { x: x + size / 2, y: y + tall / 2 - (size > 80 ? 1 : -4), class: "name", "text-anchor": "middle", style: `fill:${ink(mean)};font-weight:600` }, mean.toFixed(2));
    if (size > 80) put(group, "text", { x: x + size / 2, y: y + tall / 2 + 14, class: "tick", "text-anchor": "middle", style: `fill:${ink(mean)}` }, `${low.toFixed(2)} to ${high.toFixed(2)}`);
  }));
}

// ---- of several figures the one that was chosen ------------------------------------------------------------------

function chosenOne(box, spec) {
  DRAW[spec.of](box, { ...spec, ...spec.each[Math.min(chosen[spec.chooser], spec.each.length - 1)] });
}
