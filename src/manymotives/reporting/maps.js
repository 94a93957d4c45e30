// Maps: places with a colour, or with an arrow. Of many places: one image instead of thousands of shapes.
"use strict";

const MANY_ARROW = 15; // pixels between two arrows

function maps(box, spec) {
  const { xy, edges, square, size, many } = spec.layout;
  const across = box.clientWidth || 700;
  const columns = Math.max(1, Math.min(spec.panels.length, Math.floor(across / (many ? 290 : 210))));
  const width = Math.min(across, columns * (many ? 450 : 330));
  const cell = width / columns;
  const [xs, ys] = [0, 1].map((axis) => xy.map((p) => p[axis]));
  const margin = size * (many ? 0.5 : 0.65);
  const least = (values) => values.reduce((a, b) => Math.min(a, b)), most = (values) => values.reduce((a, b) => Math.max(a, b));
  const [x0, x1, y0, y1] = [least(xs) - margin, most(xs) + margin, least(ys) - margin, most(ys) + margin];
  const zoom = Math.min((cell - 16) / (x1 - x0), (many ? 450 : 340) / (y1 - y0), 74 / size);
  const [wide, tall] = [(x1 - x0) * zoom, (y1 - y0) * zoom];
  const rows = Math.ceil(spec.panels.length / columns);
  const bar = spec.low === undefined ? 0 : 60;
  const { svg } = canvas(box, rows * (tall + 34) + bar);
  const share = (v) => (v - spec.low) / (spec.high - spec.low || 1);
  spec.panels.forEach((panel, number) => {
    const left = (number % columns) * cell + (cell - wide) / 2;
    const top = Math.floor(number / columns) * (tall + 34) + 24;
    const at = ([x, y]) => [left + (x - x0) * zoom, top + (y1 - y) * zoom];
    put(svg, "text", { x: left + wide / 2, y: top - 8, class: "name", "text-anchor": "middle" }, clip(panel.title, Math.floor(cell / 7)));
    if (many) { manyPlaces(svg, spec.layout, panel, { left, top, wide, tall, x0, x1, y0, y1, zoom, share, at }); return; }
    const lines = edges.map(([a, b]) => "M" + at(xy[a]).join() + "L" + at(xy[b]).join()).join("");
    put(svg, "path", { d: lines, class: "edge" });
    const r = size * zoom * 0.5;
    xy.forEach((place, i) => {
      const [x, y] = at(place);
      const value = panel.values ? panel.values[i] : null;
      const paint = value === null ? "var(--panel)" : colour(share(value));
      const group = put(svg, "g", { "data-tip": tipOf(panel, i) });
      if (square) put(group, "rect", { x: x - r * 0.96, y: y - r * 0.96, width: r * 1.92, height: r * 1.92, rx: 2, fill: paint, class: "place" });
      else put(group, "circle", { cx: x, cy: y, r: Math.max(2.5, r * 0.8), fill: paint, class: "place" });
      if (value !== null && r > 15) put(group, "text", { x, y: y + 4, class: "tick", "text-anchor": "middle", style: `fill:${ink(share(value))}` }, tidy(Math.round(value * 100) / 100));
      if (panel.arrows && panel.arrows[i]) arrow(group, x, y, Math.max(6, r * 0.72), panel.arrows[i]);
    });
  });
  if (bar) colourBar(svg, spec, 10, rows * (tall + 34) + 14, Math.min(300, width - 20));
}

const tipOf = (panel, i) => (panel.tip ? panel.tip(i) : panel.tips[i]);

function manyPlaces(svg, layout, panel, view) {
  const { left, top, wide, tall, at } = view;
  if (panel.values) put(svg, "image", { href: painted(layout, panel.values, view), x: left, y: top, width: wide, height: tall, preserveAspectRatio: "none", style: "image-rendering:pixelated" });
  else put(svg, "rect", { x: left, y: top, width: wide, height: tall, class: "frame" });
  if (panel.arrows) {
    const step = layout.size * Math.ceil(MANY_ARROW / (view.zoom * layout.size)), middle = new Map();
    layout.xy.forEach(([x, y], i) => { // the one in the middle of each square of places
      if (!panel.arrows[i]) return;
      const [a, b] = [(x - view.x0) / step, (view.y1 - y) / step];
      const key = `${Math.floor(a)},${Math.floor(b)}`, away = Math.hypot((a % 1) - 0.5, (b % 1) - 0.5);
      if (!middle.has(key) || away < middle.get(key)[1] - 1e-9) middle.set(key, [i, away, Math.floor(a) + 0.5, Math.floor(b) + 0.5]);
    });
    for (const [i, , a, b] of middle.values()) {
      const where = layout.square ? [Math.min(left + a * step * view.zoom, left + wide - MANY_ARROW / 2), Math.min(top + b * step * view.zoom, top + tall - MANY_ARROW / 2)] : at(layout.xy[i]);
      arrow(svg, ...where, step * view.zoom * 0.36, panel.arrows[i]);
    }
  }
  const near = nearest(layout), hit = put(svg, "rect", { x: left, y: top, width: wide, height: tall, class: "hit", "data-tip": "" });
  for (const kind of ["pointermove", "pointerdown"]) hit.addEventListener(kind, (event) => {
    const box = hit.getBoundingClientRect();
    const x = view.x0 + ((event.clientX - box.left) / box.width) * (view.x1 - view.x0), y = view.y1 - ((event.clientY - box.top) / box.height) * (view.y1 - view.y0);
    const i = near(x, y);
    hit.dataset.tip = i === null ? "" : tipOf(panel, i);
  });
}

// one pixel a place where places are squares, discs where they are not; as an address that holds the image itself
function painted({ xy, square, size }, values, { wide, tall, x0, x1, y0, y1, zoom, share }) {
  const sheet = document.createElement("canvas");
  [sheet.width, sheet.height] = square ? [Math.round((x1 - x0) / size), Math.round((y1 - y0) / size)] : [Math.ceil(2 * wide), Math.ceil(2 * tall)];
  const pen = sheet.getContext("2d");
  xy.forEach(([x, y], i) => {
    if (values[i] === null) return;
    pen.fillStyle = colour(share(values[i]));
    if (square) { pen.fillRect(Math.round((x - x0) / size - 0.5), Math.round((y1 - y) / size - 0.5), 1, 1); return; }
    pen.beginPath();
    pen.arc(2 * (x - x0) * zoom, 2 * (y1 - y) * zoom, Math.max(2.5, size * zoom), 0, 7);
    pen.fill();
  });
  return sheet.toDataURL();
}

// the place nearest to a point, if one is near
function nearest({ xy, size }) {
  const boxes = new Map(), number = (v) => Math.floor(v / size);
  xy.forEach(([x, y], i) => {
    const key = `${number(x)},${number(y)}`;
    if (boxes.has(key)) boxes.get(key).push(i);
    else boxes.set(key, [i]);
  });
  return (x, y) => {
    let [best, away] = [null, size];
    for (const a of [-1, 0, 1]) for (const b of [-1, 0, 1]) for (const i of boxes.get(`${number(x) + a},${number(y) + b}`) || []) {
      const far = Math.hypot(xy[i][0] - x, xy[i][1] - y);
      if (far < away) [best, away] = [i, far];
    }
    return best;
  };
}
