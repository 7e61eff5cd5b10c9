"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const NS = "http://www.w3.org/2000/svg";
const BOX = { width: 960, height: 520, left: 64, right: 30, top: 14, bottom: 52 };
const STEP = 50;
const names = Object.keys(data.strategies);
const shown = new Set(names);
let across = "compression";
let current = data.points.findIndex((p) => p.strategy === "listwise" && p.onLine);
if (current < 0) current = 0;
let open = -1;

function element(name, attributes, ...children) {
  const made = name.includes(":") ? document.createElementNS(NS, name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
const svg = (name, attributes, ...children) => element("svg:" + name, attributes, ...children);
const x = (value) => BOX.left + value * (BOX.width - BOX.left - BOX.right);
const y = (value) => BOX.height - BOX.bottom - value * (BOX.height - BOX.top - BOX.bottom);
const percent = (value) => (value === null ? "–" : (100 * value).toFixed(1) + " %");
const plain = (value, digits) => (value === null ? "–" : value.toFixed(digits));
const band = (three) => `${percent(three[0])} [${percent(three[1])}, ${percent(three[2])}]`;

const SHAPES = {
  o: "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
  s: "M-4.5-4.5h9v9h-9z",
  "^": "M0-6L5.5 4.5h-11z",
  v: "M0 6L5.5-4.5h-11z",
  "<": "M-6 0L4.5 5.5v-11z",
  ">": "M6 0L-4.5 5.5v-11z",
  D: "M0-6L6 0L0 6L-6 0z",
  P: "M-2-6h4v4h4v4h-4v4h-4v-4h-4v-4h4z",
  X: "M-6-3.5L-3.5-6L0-2.5L3.5-6L6-3.5L2.5 0L6 3.5L3.5 6L0 2.5L-3.5 6L-6 3.5L-2.5 0z",
  "*": "M0-8L2-2.6L7.6-2.5L3.2 1L4.7 6.5L0 3.3L-4.7 6.5L-3.2 1L-7.6-2.5L-2-2.6z",
  p: "M0-6L5.7-1.9L3.5 4.9h-7L-5.7-1.9z",
};

// Black and grey would vanish on a dark page.
function paint(node, look) {
  if (look.colour === "#000000" || look.colour === "#666666") node.classList.add("ink");
  else node.style.setProperty("--own", look.colour);
  return node;
}

function axes() {
  const group = svg("g", {});
  for (let tick = 0; tick <= 10; tick += 2) {
    const at = tick / 10;
    group.append(svg("line", { class: "grid", x1: x(at), x2: x(at), y1: y(0), y2: y(1) }));
    group.append(svg("line", { class: "grid", x1: x(0), x2: x(1), y1: y(at), y2: y(at) }));
    group.append(svg("text", { x: x(at), y: y(0) + 20, "text-anchor": "middle" }, 10 * tick + " %"));
    group.append(svg("text", { x: x(0) - 8, y: y(at) + 4, "text-anchor": "end" }, 10 * tick + " %"));
  }
  for (const level of data.levels) group.append(svg("line", { class: "level", x1: x(0), x2: x(1), y1: y(level), y2: y(level) }));
  const what = across === "compression" ? "chunks" : "tokens";
  group.append(svg("text", { x: x(0.5), y: BOX.height - 10, "text-anchor": "middle" }, `compression: share of ${what} dropped`));
  const turned = `translate(14 ${y(0.5)}) rotate(-90)`;
  group.append(svg("text", { transform: turned, "text-anchor": "middle" }, "recall preserved"));
  return group;
}

function series(name) {
  const look = data.strategies[name];
  const group = paint(svg("g", { class: "series" }), look);
  const line = data.points.filter((p) => p.strategy === name && p.onLine);
  line.sort((a, b) => a[across][0] - b[across][0]);
  const path = line.map((p) => `${x(p[across][0])} ${y(p.recall[0])}`);
  if (name === "listwise" || name === "top_n") {
    const edge = (end) => line.map((p) => `${x(p[across][0])},${y(p.recall[end])}`);
    group.append(svg("polygon", { points: [...edge(1), ...edge(2).reverse()].join(" ") }));
  }
  if (path.length) group.append(svg("path", { class: "pareto" + (look.dashed ? " dashed" : ""), d: "M" + path.join("L") }));
  data.points.forEach((p, index) => {
    if (p.strategy === name && p.recall[0] !== null && p[across][0] !== null) group.append(mark(p, index, look));
  });
  return group;
}

function mark(p, index, look) {
  const node = svg("g", {
    class: "point" + (p.onLine ? "" : " off") + (index === open ? " open" : ""),
    transform: `translate(${x(p[across][0])} ${y(p.recall[0])})`,
    tabindex: index === current ? 0 : -1,
    role: "button",
    "aria-label": `${p.label}: recall preserved ${percent(p.recall[0])}, compression ${percent(p[across][0])}`,
    "data-index": index,
  });
  node.append(svg("circle", { class: "hit", r: 10 }), svg("path", { class: "mark", d: SHAPES[look.marker] || SHAPES.o }));
  node.append(svg("circle", { class: "ring", r: 11 }));
  node.addEventListener("mouseenter", () => tell(p));
  node.addEventListener("focus", () => tell(p));
  node.addEventListener("click", () => show(index));
  node.addEventListener("keydown", (event) => step(event, index));
  return node;
}

function draw(focused) {
  const title = "Recall preserved against compression; the arrow keys step through the points";
  const root = svg("svg", { viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: "group", "aria-label": title });
  root.append(axes());
  for (const name of names) if (shown.has(name)) root.append(series(name));
  document.getElementById("chart").replaceChildren(root);
  if (focused) root.querySelector(`[data-index="${current}"]`)?.focus();
}

function tell(p) {
  const lines = [
    p.label,
    `recall preserved ${band(p.recall)}, at least ${percent(p.recall_shown)} (exact, 95 %)`,
    `chunks dropped ${band(p.compression)}, tokens dropped ${band(p.token_compression)}`,
    `chunk recall ${plain(p.chunk_recall, 2)}, precision ${plain(p.precision, 2)}, nDCG ${plain(p.ndcg, 2)}, ` +
      `answer survives ${plain(p.answer_survives, 2)}, ` +
      (p.cost === null ? "" : `$${p.cost.toFixed(6)} and `) + `${plain(p.latency, 2)} s a query`,
  ];
  document.getElementById("told").textContent = lines.join("\n");
}

// Left and right go along a strategy by compression, up and down to the next strategy.
function step(event, index) {
  const own = data.points[index].strategy;
  const along = (name) => data.points.map((p, i) => [p, i]).filter(([p]) => p.strategy === name && p.recall[0] !== null)
    .sort(([a], [b]) => a[across][0] - b[across][0]).map(([, i]) => i);
  const sideways = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const between = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (event.key === "Enter" || event.key === " ") show(index);
  else if (sideways) {
    const places = along(own);
    current = places[Math.min(places.length - 1, Math.max(0, places.indexOf(index) + sideways))];
    draw(true);
  } else if (between) {
    const visible = names.filter((name) => shown.has(name));
    const next = visible[(visible.indexOf(own) + between + visible.length) % visible.length];
    const near = along(next).sort((a, b) => distance(a, index) - distance(b, index));
    if (near.length) current = near[0];
    draw(true);
  } else return;
  event.preventDefault();
}
const distance = (a, b) => Math.abs(data.points[a][across][0] - data.points[b][across][0]);

function show(index) {
  open = current = index;
  const p = data.points[index];
  draw(false);
  const whole = p.withGold - p.lost.length;
  document.getElementById("lost-title").textContent =
    `${p.label}: ${p.lost.length} of ${p.withGold} questions lost a needed chunk, ${whole} are whole`;
  const list = document.getElementById("lost-list");
  const more = document.getElementById("more");
  list.replaceChildren();
  const add = () => {
    const from = list.children.length;
    list.append(...p.lost.slice(from, from + STEP).map(([q, places]) => question(data.questions[q], places)));
    more.hidden = list.children.length >= p.lost.length;
  };
  more.onclick = add;
  add();
  const section = document.getElementById("lost");
  section.hidden = false;
  section.focus({ preventScroll: true });
  section.scrollIntoView({ block: "start" });
}

function question(q, places) {
  const title = q.query === null ? q.id : q.query;
  const head = element("summary", {}, title + " ");
  head.append(element("span", { class: "meta" }, `(${q.dataset}, ${q.id}; ${places.length} of ${q.needed} needed chunks lost)`));
  return element("details", {}, head, ...places.map((place) => chunk(q, place)));
}

function chunk(q, place) {
  const c = q.chunks[place];
  const facts = [`rank ${place + 1} of ${q.n}`, c.grade === null ? "ungraded" : `grade ${c.grade}`];
  if (c.expected !== null) facts.push(`expected ${c.expected.toFixed(2)}`);
  if (c.score !== null) facts.push(`score ${c.score}`);
  if (c.id !== null) facts.push(`id ${c.id}`);
  const made = element("div", { class: "chunk" }, element("p", { class: "meta" }, facts.join(", ")));
  if (c.title) made.append(element("p", {}, element("strong", {}, c.title)));
  if (c.text !== null) made.append(element("p", {}, c.text));
  return made;
}

for (const name of names) {
  const look = data.strategies[name];
  const box = element("input", { type: "checkbox", checked: "" });
  box.addEventListener("change", () => {
    if (box.checked) shown.add(name);
    else shown.delete(name);
    const visible = data.points.findIndex((p) => shown.has(p.strategy) && p.onLine);
    if (!shown.has(data.points[current].strategy) && visible >= 0) current = visible;
    draw(false);
  });
  const swatch = paint(svg("svg", { class: "series swatch", width: 18, height: 18, viewBox: "-9 -9 18 18", "aria-hidden": "true" }), look);
  swatch.append(svg("g", { class: "point" }, svg("path", { class: "mark", d: SHAPES[look.marker] || SHAPES.o })));
  const note = name === "top_n" ? "top_n (cutting the ranking)" : name;
  document.getElementById("strategies").append(element("label", {}, box, " ", swatch, note), " ");
}
document.getElementById("across").addEventListener("change", (event) => {
  across = event.target.value;
  draw(false);
});
draw(false);
if (data.points.length) tell(data.points[current]);
