// What the page does: draws its figures, chooses subjects, sorts tables, shows values, changes its colours.
"use strict";

const read = (name) => JSON.parse(document.getElementById(`data-${name}`).textContent);
const DRAW = { intervals, maps, heat, points, agreement, chosenFeature, dodged, bands, walk, matrix, chosenOne };
const figures = read("figures");
const wanted = read("rewards");
const acted = read("policies");
const chosen = { wanted: 0, acted: 0, feature: 0, whose: 0, band: 0, switching: 0, leaving: 0, walk: 0 };
const thousandth = (n) => (n === null ? null : n / 1000);

// ---- what one subject, or the population, wants -------------------------------------------------------------------

function ranked(who) {
  const rows = wanted.cells.map((label, i) => {
    const [mid, lo, hi, shift] = ["mean", "lower", "upper", "shift"].map((word) => thousandth(wanted[word][who][i]));
    const [prior, plo, phi] = ["mean", "lower", "upper"].map((word) => thousandth(wanted.prior[word][i]));
    const truth = wanted.truth && wanted.truth[who] ? thousandth(wanted.truth[who][i]) : null;
    const known = truth === null ? "" : `\ntruth ${tidy(truth)}`;
    const tip = () => `${label}\nposterior ${tidy(mid)} (95 %: ${tidy(lo)} to ${tidy(hi)})\nprior ${tidy(prior)} (95 %: ${tidy(plo)} to ${tidy(phi)})\nshift ${tidy(shift)}${known}`;
    return { label, mid, lo, hi, plo, phi, prior, shift, truth, tip, index: i };
  });
  return rows.sort((a, b) => b.mid - a.mid || a.index - b.index);
}

function someOf(rows) {
  if (rows.length <= 20) return rows;
  const last = rows.slice(-6);
  last[0] = { ...last[0], gap: true };
  return [...rows.slice(0, 14), ...last];
}

// of a long table the beginning and the end
const shortened = (rows, most) => (rows.length <= most ? rows : [...rows.slice(0, most / 2), ...rows.slice(-most / 2)]);

// rewards that choices can compare stand together, above a line; where nothing is chosen there is nothing to rank
function comparable(rows) {
  const aside = new Set(wanted.aside);
  const told = rows.filter((row) => !aside.has(row.index));
  const some = someOf(told.length ? told : rows);
  if (wanted.groups === null) return some;
  const group = (row) => wanted.groups[row.index];
  return [...some].sort((a, b) => group(a) - group(b)).map((row, i, all) => ({ ...row, gap: i > 0 && group(row) !== group(all[i - 1]) }));
}

function drawWanted(who) {
  const rows = ranked(who);
  const legend = [["dot", "posterior mean"], ["line", "95 % interval"], ["band", "prior, 95 %"]];
  if (rows.some((row) => row.truth !== null)) legend.push(["truth", "truth"]);
  intervals(document.getElementById("plot-ranked"), { rows: comparable(rows).map((row) => ({ ...row, tip: row.tip() })), unit: wanted.unit, legend });
  const box = document.getElementById("plot-reward-map");
  if (box) {
    const members = wanted.layout.members || wanted.layout.xy.map((_, i) => [[i, 1]]);
    const at = (values) => members.map((some) => some.reduce((sum, [i, weight]) => sum + values[i] * weight, 0));
    const byIndex = [...rows].sort((a, b) => a.index - b.index);
    const tip = (place) => members[place].slice(0, 3).map(([i]) => byIndex[i].tip()).join("\n") + (members[place].length > 3 ? `\n… ${members[place].length} states here` : "");
    const panel = (title, values) => ({ title, values: at(values), tip });
    const panels = [panel("prior mean", byIndex.map((row) => row.prior)), panel("posterior mean", byIndex.map((row) => row.mid))];
    if (byIndex.some((row) => row.truth !== null)) panels.push(panel("truth", byIndex.map((row) => row.truth)));
    maps(box, { layout: wanted.layout, panels, low: thousandth(wanted.low), high: thousandth(wanted.high), unit: wanted.unit });
  }
  fill("table-wanted", shortened(rows, wanted.listed).map((row) => [row.label, row.mid, row.lo, row.hi, row.prior, row.shift, ...(row.truth === null ? [] : [row.truth])]));
  const sure = document.getElementById("contrasts");
  if (sure) sure.replaceChildren(...wanted.contrasts[who].map(([first, second, share]) => {
    const item = document.createElement("li");
    item.textContent = `${wanted.cells[first]} over ${wanted.cells[second]} (${share >= 1000 ? "> 99.9" : tidy(share / 10)} %)`;
    return item;
  }));
  const none = document.getElementById("no-contrasts");
  if (none) none.hidden = wanted.contrasts[who].length > 0;
}

// ---- one feature, all subjects ------------------------------------------------------------------------------------

function chosenFeature(box, spec) {
  const feature = spec.features[chosen.feature];
  const rows = feature.rows.map(([label, mid, lo, hi, plo, phi, gap]) => ({
    label, mid, lo, hi, plo, phi, gap: gap === 1,
    tip: `${label}\n${feature.name}: ${tidy(mid)} (95 %: ${tidy(lo)} to ${tidy(hi)})` + (plo === null ? "" : `\nprior, 95 %: ${tidy(plo)} to ${tidy(phi)}`),
  }));
  intervals(box, { rows, unit: spec.unit, legend: spec.legend, line: 0, include: [0] });
  const list = document.getElementById("feature-differences");
  list.replaceChildren(...feature.surest.map(([high, low, gap, share]) => {
    const item = document.createElement("li");
    item.textContent = `${high} above ${low}, by ${tidy(gap)} (${share >= 1000 ? "> 99.9" : tidy(share / 10)} %)`;
    return item;
  }));
  document.getElementById("no-feature-differences").hidden = feature.surest.length > 0;
}

// ---- what would be best for one subject ------------------------------------------------------------------------------

function drawActed(who) {
  const best = acted.best[who], sure = acted.sure[who];
  const tip = (s) => `${acted.states[s]}\nbest: ${acted.actions[best[s]]} (in ${sure[s]} % of draws)` + (acted.made[who][s] ? `\nchose ${acted.actions[acted.most[who][s]]} most (${acted.most_share[who][s]} % of ${acted.made[who][s]})` : "\nno choices seen");
  const box = document.getElementById("plot-policy-map");
  if (box) {
    const chosen = acted.layout.xy.map((_, s) => (acted.lives[s] ? [...acted.moves[s][best[s]], 0.25 + 0.75 * (sure[s] / 100)] : null));
    maps(box, { layout: acted.layout, panels: [{ title: acted.who[who], values: null, arrows: chosen, tip: (s) => (acted.lives[s] ? tip(s) : acted.states[s]) }] });
  }
  const rows = [];
  const order = acted.states.map((_, s) => s);
  if (order.length > acted.listed) order.sort((a, b) => acted.made[who][b] - acted.made[who][a] || a - b).splice(acted.listed);
  order.forEach((s) => {
    if (!acted.lives[s]) return;
    const state = acted.states[s];
    const seen = acted.made[who][s];
    const share = (n) => [n, `${n} %`];
    rows.push([state, [seen, seen], seen ? acted.actions[acted.most[who][s]] : "–", seen ? share(acted.most_share[who][s]) : [-1, "–"], ...(acted.next ? [acted.actions[acted.next[who][s]], share(acted.next_share[who][s])] : []), acted.actions[best[s]], share(sure[s])]);
  });
  fill("table-acted", rows);
}

// ---- tables ----------------------------------------------------------------------------------------------------------

function fill(name, rows) {
  const body = document.querySelector(`#${name} tbody`);
  if (!body) return;
  body.replaceChildren(...rows.map((row) => {
    const line = document.createElement("tr");
    line.append(...row.map((value) => {
      const cell = document.createElement("td");
      const number = typeof value === "number" || Array.isArray(value);
      const [amount, shown] = Array.isArray(value) ? value : [value, number ? value.toFixed(2).replace("-", "−") : value ?? "–"];
      cell.textContent = shown;
      if (number) { cell.className = "number"; cell.dataset.value = amount; }
      return cell;
    }));
    return line;
  }));
  const headings = document.querySelectorAll(`#${name} th`);
  (rows[0] || []).forEach((value, i) => headings[i].classList.toggle("number", typeof value === "number" || Array.isArray(value)));
  const heading = document.querySelector(`#${name} th[aria-sort="ascending"], #${name} th[aria-sort="descending"]`);
  if (heading) sortBy(heading, heading.getAttribute("aria-sort"));
}

function sortBy(heading, direction) {
  const table = heading.closest("table"), body = table.tBodies[0];
  const column = [...heading.parentNode.children].indexOf(heading);
  const value = (row) => {
    const cell = row.children[column];
    return cell.dataset.value !== undefined ? Number(cell.dataset.value) : cell.textContent;
  };
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : typeof a === "number" ? -1 : typeof b === "number" ? 1 : a.localeCompare(b, undefined, { numeric: true }));
  const sign = direction === "descending" ? -1 : 1;
  body.append(...[...body.rows].sort((a, b) => sign * compare(value(a), value(b))));
  for (const other of heading.parentNode.children) other.setAttribute("aria-sort", other === heading ? direction : "none");
}

document.addEventListener("click", (event) => {
  const heading = event.target.closest("table.sortable th");
  if (!heading) return;
  const first = heading.closest("table").tBodies[0].rows[0];
  const numeric = first && first.children[[...heading.parentNode.children].indexOf(heading)].dataset.value !== undefined;
  const now = heading.getAttribute("aria-sort");
  sortBy(heading, now === "none" ? (numeric ? "descending" : "ascending") : now === "descending" ? "ascending" : "descending");
});

// ---- values on hover, on focus, on touch -----------------------------------------------------------------------------

const tip = document.getElementById("tip");
function showTip(target, x, y) {
  tip.textContent = target.dataset.tip;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, document.documentElement.clientWidth - box.width - 6))}px`;
  tip.style.top = `${y + 18 + box.height > window.innerHeight ? Math.max(4, y - box.height - 10) : y + 18}px`;
}
for (const kind of ["pointermove", "pointerdown"]) document.addEventListener(kind, (event) => {
  const target = event.target.closest("[data-tip]");
  if (target && target.dataset.tip) showTip(target, event.clientX, event.clientY);
  else tip.hidden = true;
});
document.addEventListener("focusin", (event) => {
  const target = event.target.closest("[data-tip]");
  if (!target) return;
  const box = target.getBoundingClientRect();
  showTip(target, box.left + box.width / 2, box.top + box.height / 2);
});
document.addEventListener("focusout", () => { tip.hidden = true; });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
document.addEventListener("scroll", () => { tip.hidden = true; }, true);

// ---- choosing --------------------------------------------------------------------------------------------------------

const draws = { wanted: drawWanted, acted: drawActed, feature: () => chosenFeature(document.getElementById("plot-feature-subjects"), figures["feature-subjects"]) };
const drawFigure = (name) => DRAW[figures[name].kind](document.getElementById(`plot-${name}`), figures[name]);
const chosenBy = (kind) => Object.keys(figures).filter((name) => (figures[name].chooser || figures[name].kind) === kind);
for (const control of document.querySelectorAll("[data-chooser]")) { // a list, or a slider
  const kind = control.dataset.chooser, list = control.tagName === "SELECT";
  const choose = (index) => {
    chosen[kind] = Math.min(Math.max(index, 0), list ? control.options.length - 1 : Number(control.max));
    if (list) control.selectedIndex = chosen[kind];
    else control.value = chosen[kind];
    if (draws[kind]) draws[kind](chosen[kind]);
    else chosenBy(kind).forEach(drawFigure);
  };
  control.addEventListener(list ? "change" : "input", () => choose(list ? control.selectedIndex : Number(control.value)));
  for (const button of document.querySelectorAll(`button[data-step][data-for="${kind}"]`))
    button.addEventListener("click", () => choose(chosen[kind] + Number(button.dataset.step)));
}

// ---- colours ---------------------------------------------------------------------------------------------------------

document.getElementById("theme").addEventListener("click", () => {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
  document.documentElement.dataset.theme = dark ? "light" : "dark";
});

// ---- drawing ---------------------------------------------------------------------------------------------------------

function drawAll() {
  Object.keys(figures).forEach(drawFigure);
  if (document.getElementById("plot-ranked")) drawWanted(chosen.wanted);
  if (acted) drawActed(chosen.acted);
}
let width = 0, waiting = 0;
new ResizeObserver(() => {
  if (document.body.clientWidth === width) return;
  width = document.body.clientWidth;
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(drawAll);
}).observe(document.body);
width = document.body.clientWidth;
drawAll();
