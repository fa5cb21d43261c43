// The lab's front end: one module, no framework. It speaks to a Python session through a transport
// (a websocket on the page, the widget's messages in a notebook) and draws what it is told.

const SVG = "http://www.w3.org/2000/svg";
const MATHML = "http://www.w3.org/1998/Math/MathML";

// ---- small tools --------------------------------------------------------------------------------

/** Make an element: h("button", {class: "x", onclick}, "text", child, ...). */
function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for SVG. */
function s(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name in node && !(node instanceof SVGElement) && typeof value !== "string") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...present(children));
  return node;
}

const present = (children) => children.flat().filter((child) => child !== null && child !== undefined && child !== false);

/** Replace what a node holds; false and null leave a place empty. */
const put = (node, ...children) => node.replaceChildren(...present(children));

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** A number for reading: three digits, a true minus. */
function fmt(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size > 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(1).replace("-", "−").replace("e+", "e");
  return String(Number(value.toPrecision(digits))).replace("-", "−");
}

/** The gap as the certificate prints it. */
const sci = (value) =>
  value === null || value === undefined ? "∞" : value.toExponential(1).replace(/e([+-])(\d)$/, "e$10$2");

// ---- formulas: a little TeX to MathML -----------------------------------------------------------

function m(tag, ...children) {
  const node = document.createElementNS(MATHML, tag);
  node.append(...children);
  return node;
}

/** Set a formula: letters, numbers, _ ^ { } \frac \text \op and \live, which marks a live number. */
function math(source, { block = false } = {}) {
  const reader = { text: source, at: 0 };
  const root = m("math", m("mrow", ...row(reader, "")));
  root.setAttribute("display", block ? "block" : "inline");
  return root;
}

function row(reader, end) {
  const nodes = [];
  while (reader.at < reader.text.length) {
    if (reader.text[reader.at] === end) {
      reader.at += 1;
      break;
    }
    const base = atom(reader);
    if (!base) continue;
    const before = nodes[nodes.length - 1];
    if ("−±".includes(base.textContent) && (!before || "([=,".includes(before.textContent))) prefix(base);
    nodes.push(scripts(reader, base));
  }
  return nodes;
}

/** A sign, not a difference: no space after it. */
function prefix(sign) {
  sign.setAttribute("form", "prefix");
  sign.setAttribute("lspace", "0");
  sign.setAttribute("rspace", "0");
}

function scripts(reader, base) {
  const found = {};
  while ("_^".includes(reader.text[reader.at] || " ")) {
    const kind = reader.text[reader.at++];
    found[kind] = atom(reader);
  }
  const under = ["min", "max", "∑"].includes(base.textContent);
  if (found._ && found["^"]) return m("msubsup", base, found._, found["^"]);
  if (found._) return m(under ? "munder" : "msub", base, found._);
  return found["^"] ? m("msup", base, found["^"]) : base;
}

function atom(reader) {
  const rest = reader.text.slice(reader.at);
  const command = rest.match(/^\\(frac|text|op|live|fence|quad)/);
  if (command) {
    reader.at += command[0].length;
    if (command[1] === "quad") {
      const space = m("mspace");
      space.setAttribute("width", "1em");
      return space;
    }
    if (command[1] === "frac") return m("mfrac", atom(reader), atom(reader));
    const inside = reader.text.slice(reader.at + 1, reader.text.indexOf("}", reader.at));
    reader.at += inside.length + 2;
    if (command[1] === "text") return m("mtext", inside);
    if (command[1] === "op") {
      const word = m("mo", inside);
      word.setAttribute("form", "prefix");
      word.setAttribute("lspace", "0");
      word.setAttribute("rspace", ["min", "max"].includes(inside) ? "0.2em" : "0");
      return word;
    }
    return live(inside, command[1] === "fence");
  }
  const number = rest.match(/^\d+(\.\d+)?/);
  if (number) {
    reader.at += number[0].length;
    return m("mn", number[0]);
  }
  reader.at += 1;
  const sign = rest[0];
  if (sign === "{") return m("mrow", ...row(reader, "}"));
  if (sign === " ") return null;
  return /\p{L}/u.test(sign) ? m("mi", sign) : operator(sign);
}

function operator(sign) {
  const node = m("mo", sign);
  if ("‖|([])".includes(sign)) {
    node.setAttribute("stretchy", "false");
    node.setAttribute("lspace", "0");
    node.setAttribute("rspace", "0");
  }
  return node;
}

/** A number that changes, exponent and sign set properly. */
function live(text, fenced) {
  const parts = text.match(/^(−?)([\d.]+)(?:e([−+]?\d+))?$/);
  if (!parts) return m("mi", text);
  const node = m("mrow");
  node.setAttribute("class", "mm-live");
  if (parts[1]) {
    const minus = m("mo", "−");
    prefix(minus);
    node.append(minus);
  }
  node.append(m("mn", parts[2]));
  if (parts[3]) node.append(m("mo", "·"), m("msup", m("mn", "10"), m("mn", parts[3])));
  return parts[1] && fenced ? m("mrow", operator("("), node, operator(")")) : node;
}

const val = (value) => `\\live{${fmt(value)}}`;
const fenced = (value) => `\\fence{${fmt(value)}}`; // (−2) after another operator

/** A kernel's own formula as TeX. */
function kernelMath(formula) {
  const tex = formula
    .replace("(u·v)^0", "1")
    .replace(/\|\|u - v\|\|_1/g, "‖u−v‖_1")
    .replace(/\|\|u - v\|\|/g, "‖u−v‖")
    .replace(/\^(\d+)/g, "^{$1}")
    .replace(/(\d)e([+-]\d+)/g, "$1·10^{$2}")
    .replace(/\*/g, "·")
    .replace(/-/g, "−")
    .replace(/\b(exp|tanh|sqrt)\b/g, "\\op{$1}");
  return math("k(u,v) = " + tex);
}

const PROBLEM = {
  hard: {
    name: "Hard margin",
    tag: "N0 (5)",
    lines: ["\\op{min}_{w,b} \\frac{1}{2}‖w‖^2", "y_i(w·φ(x_i)+b) ≥ 1"],
    sliders: [],
  },
  soft: {
    name: "Soft margin",
    tag: "N0 (62)",
    sliders: ["C"],
    scaled: {
      sum: ["\\op{min}_{w,b,ξ} \\frac{1}{2}‖w‖^2 + C ∑_i ξ_i", "N0 (62)"],
      mean: ["\\op{min}_{w,b,ξ} \\frac{1}{2}‖w‖^2 + \\frac{C}{n} ∑_i ξ_i", "N2"],
      doubled: ["\\op{min}_{w,b,ξ} w·w + C ∑_i ξ_i", "N3"],
    },
    lines: ["", "y_i(w·φ(x_i)+b) ≥ 1 − ξ_i", "ξ_i ≥ 0"],
  },
  nu: {
    name: "ν-SVM (K_m, K_s)",
    tag: "N4",
    lines: ["\\op{min} \\frac{1}{2}‖w‖^2 − K_m η + K_s ∑_i ξ_i", "y_i(w·φ(x_i)+b) ≥ η − ξ_i", "ξ_i ≥ 0, η ≥ 0"],
    sliders: ["nu", "K_m", "K_s"],
  },
  squared: {
    name: "Squared hinge",
    tag: "",
    lines: ["\\op{min}_{w,b,ξ} \\frac{1}{2}‖w‖^2 + C ∑_i ξ_i^2", "y_i(w·φ(x_i)+b) ≥ 1 − ξ_i"],
    sliders: ["C"],
  },
  svr: {
    name: "Regression (ε-SVR)",
    tag: "",
    lines: ["\\op{min}_{w,b,ξ} \\frac{1}{2}‖w‖^2 + C ∑_i ξ_i", "|z_i − w·φ(x_i) − b| ≤ ε + ξ_i", "ξ_i ≥ 0"],
    sliders: ["C", "epsilon"],
  },
  one_class: {
    name: "One-class",
    tag: "",
    lines: ["\\op{min}_{w,ρ,ξ} \\frac{1}{2}‖w‖^2 − νnρ + ∑_i ξ_i", "w·φ(x_i) ≥ ρ − ξ_i", "ξ_i ≥ 0"],
    sliders: ["nu"],
  },
};
const SCALING = { sum: "C Σξ  (N0)", mean: "C/n Σξ  (N2)", doubled: "w·w + C Σξ  (N3)" };
const KERNEL = {
  linear: { name: "Linear", sliders: [] },
  poly: { name: "Polynomial", sliders: ["degree", "coef0"] },
  rbf: { name: "Gaussian", sliders: ["sigma"] },
  laplacian: { name: "Laplacian", sliders: ["sigma"] },
  matern: { name: "Matérn 3/2", sliders: ["sigma"] },
  sigmoid: { name: "Sigmoid", sliders: ["gamma", "coef0"] },
};
const SYMBOL = { C: "C", nu: "ν", K_m: "K_m", K_s: "K_s", epsilon: "ε", sigma: "σ", gamma: "γ", degree: "degree", coef0: "c", weight: "weight", tol: "tol" };
const LINEAR = ["degree", "coef0"]; // the other sliders are logarithmic
const CASE = ["outside the margin", "on the margin", "inside the margin", "misclassified"];
const TUBE = ["inside the tube", "on the tube", "outside the tube"];
const CLOUD = ["inside", "on the boundary", "", "outlier"];
const TERM = { kind: "rbf", op: "+", weight: 1, sigma: 1, gamma: 1, coef0: 1, degree: 3 };

// ---- transports ---------------------------------------------------------------------------------

/** Header length, header, then float32 arrays: what Python's encode writes. */
function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  return { header, arrays: cut(header.arrays, buffer, 4 + length) };
}

function cut(shapes, buffer, offset) {
  const arrays = {};
  for (const [name, shape] of Object.entries(shapes)) {
    const size = shape.reduce((a, b) => a * b, 1);
    arrays[name] = { shape, data: new Float32Array(buffer, offset, size) };
    offset += 4 * size;
  }
  return arrays;
}

/** The page's transport; it comes back when the server does. */
function websocket(url) {
  const line = { send() {}, heard() {}, opened() {}, lost() {} };
  const connect = () => {
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => line.opened();
    socket.onmessage = (event) => line.heard(decode(event.data));
    socket.onclose = () => {
      line.lost();
      setTimeout(connect, 1500);
    };
    line.send = (message) => socket.readyState === 1 && socket.send(JSON.stringify(message));
  };
  line.start = connect;
  return line;
}

/** The notebook's transport: custom messages of the widget. */
function comm(model) {
  const line = { heard() {}, opened() {}, lost() {} };
  const listen = (header, buffers) => {
    const view = buffers[0];
    const copy = view ? view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength) : new ArrayBuffer(0);
    line.heard({ header, arrays: cut(header.arrays, copy, 0) });
  };
  line.send = (message) => model.send(message);
  line.start = () => {
    model.on("msg:custom", listen);
    line.opened();
  };
  line.stop = () => model.off("msg:custom", listen);
  return line;
}

/** Ask one thing at a time; while a drag waits for its answer only its newest position is kept. */
class Line {
  constructor(transport, heard) {
    this.transport = transport;
    this.waiting = [];
    this.busy = false;
    this.count = 0;
    transport.heard = (reply) => {
      if (reply.header.last || reply.header.re === null) this.busy = false;
      heard(reply);
      this.next();
      this.changed();
    };
    this.changed = () => {};
  }

  ask(message) {
    const last = this.waiting[this.waiting.length - 1];
    const same = last && last.live && message.live !== undefined && last.type === message.type && last.index === message.index;
    if (same) this.waiting[this.waiting.length - 1] = message;
    else this.waiting.push(message);
    this.next();
    this.changed();
  }

  next() {
    if (this.busy || !this.waiting.length) return;
    this.busy = true;
    this.transport.send({ ...this.waiting.shift(), id: ++this.count });
  }

  reset() {
    this.waiting = [];
    this.busy = false;
  }

  get idle() {
    return !this.busy && !this.waiting.length;
  }
}

// ---- the state in the URL -----------------------------------------------------------------------

const NUMBERS = ["C", "nu", "K_s", "epsilon", "tol"];
const DEFAULTS = { problem: "soft", scaling: "sum", C: 1, nu: 0.5, K_s: 1, epsilon: 0.1, solver: "SMO", rival: null, tol: 1e-3 };

function toHash(doc, points) {
  const pairs = new URLSearchParams();
  if (doc.preset) pairs.set("preset", doc.preset);
  else pairs.set("points", points.map(([x, y, label]) => `${x},${y}${label > 0 ? "" : ",-"}`).join(";"));
  for (const [name, usual] of Object.entries(DEFAULTS)) {
    if (doc.settings[name] !== usual && doc.settings[name] !== null) pairs.set(name, doc.settings[name]);
  }
  const terms = doc.settings.kernel.map((term, k) => {
    const own = [...KERNEL[term.kind].sliders, "weight"].filter((name) => term[name] !== TERM[name]);
    return (k ? term.op : "") + [term.kind, ...own.map((name) => `${name}=${term[name]}`)].join(",");
  });
  pairs.set("kernel", terms.join(""));
  return "#" + pairs.toString();
}

function fromHash(hash) {
  if (hash.length < 2) return null;
  const pairs = new URLSearchParams(hash.slice(1));
  const settings = {};
  for (const name of ["problem", "scaling", "solver", "rival"]) if (pairs.has(name)) settings[name] = pairs.get(name);
  for (const name of NUMBERS) if (pairs.has(name)) settings[name] = Number(pairs.get(name));
  if (pairs.has("kernel")) settings.kernel = (pairs.get("kernel").match(/[+*]?[a-z][^+*]*/g) || []).map(readTerm);
  if (!pairs.has("points")) return { preset: pairs.get("preset") || "overlapping", settings };
  const rows = pairs.get("points").split(";").filter(Boolean);
  return {
    points: rows.map((text) => {
      const [x, y, label] = text.split(",");
      return [Number(x), Number(y), label === "-" ? -1 : 1];
    }),
    settings,
  };
}

function readTerm(text) {
  const op = "+*".includes(text[0]) ? text[0] : "+";
  const [kind, ...rest] = text.replace(/^[+*]/, "").split(",");
  const term = { ...TERM, kind, op };
  for (const pair of rest) {
    const [name, value] = pair.split("=");
    term[name] = Number(value);
  }
  return term;
}

// ---- drawing ------------------------------------------------------------------------------------

const THEMES = {
  light: { paper: [255, 255, 255], blue: "#1769aa", orange: "#c85a00", ink: "#1d2430", soft: "#6b7280", line: "#d9dce1", glow: "#b8860b", halo: "#f0b000", blueRgb: [23, 105, 170], orangeRgb: [230, 126, 24] },
  dark: { paper: [22, 26, 32], blue: "#6cb4f2", orange: "#f5a04a", ink: "#eceff4", soft: "#98a2b3", line: "#39414d", glow: "#ffd75e", halo: "#ffd75e", blueRgb: [76, 156, 222], orangeRgb: [232, 140, 52] },
};

/** Colour the surface: the side by hue, the certainty by strength. */
function paintSurface(grid, theme) {
  const [rows, columns] = grid.shape;
  const image = new ImageData(columns, rows);
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) {
      const value = grid.data[r * columns + c];
      const hue = value >= 0 ? theme.blueRgb : theme.orangeRgb;
      const size = Math.min(Math.abs(value), 2);
      const strength = Number.isFinite(value) ? 0.07 + 0.2 * Math.min(size, 1) + 0.06 * Math.max(size - 1, 0) : 0;
      const at = 4 * ((rows - 1 - r) * columns + c);
      for (let k = 0; k < 3; k++) image.data[at + k] = theme.paper[k] + strength * (hue[k] - theme.paper[k]);
      image.data[at + 3] = 255;
    }
  }
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Marching squares: the level lines of a grid as chains of points; place maps (column, row). */
function contours(grid, level, place) {
  const [rows, columns] = grid.shape;
  const at = (r, c) => grid.data[r * columns + c] - level;
  const points = new Map(); // crossed edge of the grid -> point and neighbours
  const cut = (r0, c0, r1, c1) => {
    const key = 2 * (Math.min(r0, r1) * columns + Math.min(c0, c1)) + (r0 === r1 ? 0 : 1);
    if (!points.has(key)) {
      const t = at(r0, c0) / (at(r0, c0) - at(r1, c1));
      points.set(key, { point: place(c0 + t * (c1 - c0), r0 + t * (r1 - r0)), next: [] });
    }
    return key;
  };
  for (let r = 0; r + 1 < rows; r++) {
    for (let c = 0; c + 1 < columns; c++) {
      const corners = [[r, c], [r, c + 1], [r + 1, c + 1], [r + 1, c]];
      const up = corners.map(([y, x]) => at(y, x) > 0);
      const cuts = [];
      for (let k = 0; k < 4; k++) {
        const n = (k + 1) % 4;
        if (up[k] !== up[n]) cuts.push(k < 2 ? cut(...corners[k], ...corners[n]) : cut(...corners[n], ...corners[k]));
      }
      for (let k = 0; k + 1 < cuts.length; k += 2) {
        points.get(cuts[k]).next.push(cuts[k + 1]);
        points.get(cuts[k + 1]).next.push(cuts[k]);
      }
    }
  }
  const chains = [];
  const walk = (key) => {
    const chain = [];
    while (key !== undefined) {
      const { point, next } = points.get(key);
      points.delete(key);
      chain.push(point);
      key = next.find((other) => points.has(other));
    }
    chains.push(chain);
  };
  for (const [key, { next }] of points) if (next.length === 1 && points.has(key)) walk(key);
  for (const key of points.keys()) {
    const start = points.get(key).point;
    walk(key);
    chains[chains.length - 1].push(start);
  }
  return chains;
}

/** One canvas of data: the surface, its lines, the points. */
class Plane {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.view = { x0: -3, x1: 3, y0: -2, y1: 2 };
    this.painted = null;
  }

  /** Fit the drawing buffer to the element; true if it changed. */
  fit() {
    const ratio = Math.min(window.devicePixelRatio || 1, 2.5);
    const { clientWidth: w, clientHeight: t } = this.canvas;
    const changed = this.width !== w || this.height !== t;
    this.width = w;
    this.height = t;
    this.canvas.width = Math.round(w * ratio);
    this.canvas.height = Math.round(t * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return changed;
  }

  /** The smallest view of the canvas's shape that has a box in it with some air; equal scales
   * (a margin is a distance) but for regression. */
  frame([x0, y0, x1, y1], free) {
    const air = 1.18;
    if (free) {
      const [dx, dy] = [Math.max(x1 - x0, 1e-3) * 0.06, Math.max(y1 - y0, 1e-3) * 0.35];
      this.view = { x0: x0 - dx, x1: x1 + dx, y0: y0 - dy, y1: y1 + dy };
      return;
    }
    const size = Math.max((air * (x1 - x0)) / this.width, (air * (y1 - y0)) / this.height, 1e-6) || 1;
    const scale = size > 1e-6 ? size : 4 / this.width;
    const [cx, cy] = [(x0 + x1) / 2, (y0 + y1) / 2];
    const [dx, dy] = [(scale * this.width) / 2, (scale * this.height) / 2];
    this.view = { x0: cx - dx, x1: cx + dx, y0: cy - dy, y1: cy + dy };
  }

  toScreen(x, y) {
    const v = this.view;
    return [((x - v.x0) / (v.x1 - v.x0)) * this.width, ((v.y1 - y) / (v.y1 - v.y0)) * this.height];
  }

  toWorld(px, py) {
    const v = this.view;
    return [v.x0 + (px / this.width) * (v.x1 - v.x0), v.y1 - (py / this.height) * (v.y1 - v.y0)];
  }

  draw(scene) {
    const { context: g, width: w, height: t } = this;
    const { lane, theme } = scene;
    g.fillStyle = `rgb(${theme.paper})`;
    g.fillRect(0, 0, w, t);
    const grid = lane && lane.arrays.grid;
    const broken = lane && lane.proving && lane.proving.length;
    if (grid && !broken) {
      if (grid.shape.length === 2) this.drawSurface(grid, scene);
      else this.drawTube(grid, scene);
    }
    this.drawAxes(theme);
    this.drawPoints(scene);
  }

  /** The grid knows where it was computed: after a change of the view the old one stays in place. */
  drawSurface(grid, { theme, lane: { view: box } }) {
    const { context: g } = this;
    const [rows, columns] = grid.shape;
    if (this.painted?.grid !== grid || this.painted?.theme !== theme) {
      this.painted = { grid, theme, canvas: paintSurface(grid, theme) };
    }
    const [[left, top], [right, bottom]] = [this.toScreen(box.x0, box.y1), this.toScreen(box.x1, box.y0)];
    const [dx, dy] = [(right - left) / (columns - 1), (bottom - top) / (rows - 1)];
    g.imageSmoothingEnabled = true;
    g.imageSmoothingQuality = "high";
    g.drawImage(this.painted.canvas, left - dx / 2, top - dy / 2, right - left + dx, bottom - top + dy);
    const place = (c, r) => [left + c * dx, bottom - r * dy];
    for (const [level, dash, width] of [[0, [], 2.2], [1, [6, 5], 1.2], [-1, [6, 5], 1.2]]) {
      const path = new Path2D();
      for (const chain of contours(grid, level, place)) chain.forEach(([x, y], k) => (k ? path.lineTo(x, y) : path.moveTo(x, y)));
      g.setLineDash(dash);
      g.lineWidth = width;
      g.lineJoin = g.lineCap = "round";
      g.strokeStyle = level ? (level > 0 ? theme.blue : theme.orange) : theme.ink;
      g.stroke(path);
    }
    g.setLineDash([]);
  }

  drawTube(grid, { theme, epsilon, lane: { view: box } }) {
    const { context: g } = this;
    const step = (box.x1 - box.x0) / (grid.shape[0] - 1);
    const curve = (shift) => Array.from(grid.data, (f, k) => this.toScreen(box.x0 + k * step, f + shift));
    const [low, middle, high] = [curve(-epsilon), curve(0), curve(epsilon)];
    const trace = (line) => line.forEach(([x, y], k) => (k ? g.lineTo(x, y) : g.moveTo(x, y)));
    g.beginPath();
    [...low, ...high.reverse()].forEach(([x, y], k) => (k ? g.lineTo(x, y) : g.moveTo(x, y)));
    g.fillStyle = `rgba(${theme.blueRgb}, 0.16)`;
    g.fill();
    for (const [line, dash, width] of [[low, [6, 5], 1.2], [high, [6, 5], 1.2], [middle, [], 2.2]]) {
      g.beginPath();
      trace(line);
      g.setLineDash(dash);
      g.lineWidth = width;
      g.strokeStyle = dash.length ? theme.blue : theme.ink;
      g.stroke();
    }
    g.setLineDash([]);
  }

  drawAxes(theme) {
    const { context: g, width: w, height: t, view: v } = this;
    const step = niceStep((v.x1 - v.x0) / 7);
    g.fillStyle = theme.soft;
    g.strokeStyle = theme.soft;
    g.globalAlpha = 0.75;
    g.font = "11px ui-sans-serif, system-ui, sans-serif";
    g.lineWidth = 1;
    g.textAlign = "center";
    for (let x = Math.ceil(v.x0 / step) * step; x < v.x1; x += step) {
      const [px] = this.toScreen(x, 0);
      if (px < 24 || px > w - 16) continue;
      g.fillText(fmt(Math.abs(x) < step / 1e6 ? 0 : x), px, t - 6);
      g.fillRect(px - 0.5, t - 4, 1, 4);
    }
    g.textAlign = "left";
    for (let y = Math.ceil(v.y0 / step) * step; y < v.y1; y += step) {
      const [, py] = this.toScreen(0, y);
      if (py < 12 || py > t - 22) continue;
      g.fillText(fmt(Math.abs(y) < step / 1e6 ? 0 : y), 8, py + 4);
      g.fillRect(0, py - 0.5, 4, 1);
    }
    g.globalAlpha = 1;
  }

  drawPoints(scene) {
    const { points, lane, theme, selected, hovered, regression, single } = scene;
    const small = points.length > 250;
    const size = small ? 4 : 5.4;
    const pair = lane && lane.step ? [lane.step.i, lane.step.j] : [];
    pair.forEach((k, at) => k !== null && k !== undefined && points[k] && this.drawGlow(points[k], at, scene));
    points.forEach(([x, y, label], k) => {
      const [px, py] = this.toScreen(x, y);
      const state = lane?.arrays.state ? lane.arrays.state.data[k] : 0;
      const kind = lane?.arrays.case ? lane.arrays.case.data[k] : 0;
      const colour = label > 0 || single ? theme.blue : theme.orange;
      this.drawMark(px, py, { label: regression || single ? 1 : label, size, state, wrong: kind === 3, colour, theme });
      if (lane?.proving?.includes(k)) this.drawRing(px, py, size + 7, theme.glow, 2.5);
      if (k === selected || k === hovered) this.drawRing(px, py, size + 9, theme.ink, 1.4, k === selected ? [3, 3] : []);
    });
    if (lane?.meeting) this.drawStar(...this.toScreen(...lane.meeting), theme);
  }

  /** A point: its class by shape and colour, its KKT case by rings and a cross. */
  drawMark(px, py, { label, size, state, wrong, colour, theme }) {
    const { context: g } = this;
    const shape = (r) => {
      g.beginPath();
      if (label > 0) g.arc(px, py, r, 0, 7);
      else {
        const d = r * 1.22;
        g.moveTo(px, py - d);
        g.lineTo(px + d, py);
        g.lineTo(px, py + d);
        g.lineTo(px - d, py);
        g.closePath();
      }
    };
    g.lineWidth = 1.2;
    g.strokeStyle = `rgb(${theme.paper})`;
    g.fillStyle = colour;
    g.globalAlpha = state ? 1 : 0.62;
    shape(state ? size : size * 0.86);
    g.fill();
    g.stroke();
    g.globalAlpha = 1;
    if (state) {
      g.lineWidth = state === 1 ? 2 : 1.3;
      g.strokeStyle = theme.ink;
      shape(size + 3.2);
      g.stroke();
      if (state === 2) {
        shape(size + 6);
        g.stroke();
      }
    }
    if (wrong) {
      g.lineWidth = 1.8;
      g.strokeStyle = theme.ink;
      g.beginPath();
      for (const [a, b] of [[-1, -1], [-1, 1]]) {
        g.moveTo(px + a * size * 0.75, py + b * size * 0.75);
        g.lineTo(px - a * size * 0.75, py - b * size * 0.75);
      }
      g.stroke();
    }
  }

  drawRing(px, py, r, colour, width, dash = []) {
    const { context: g } = this;
    g.setLineDash(dash);
    g.lineWidth = width;
    g.strokeStyle = colour;
    g.beginPath();
    g.arc(px, py, r, 0, 7);
    g.stroke();
    g.setLineDash([]);
  }

  drawGlow([x, y], at, { theme, pulse }) {
    const { context: g } = this;
    const [px, py] = this.toScreen(x, y);
    const r = 26 + 4 * pulse;
    const light = g.createRadialGradient(px, py, 3, px, py, r);
    light.addColorStop(0, theme.halo + "e0");
    light.addColorStop(0.45, theme.halo + "77");
    light.addColorStop(1, theme.halo + "00");
    g.fillStyle = light;
    g.beginPath();
    g.arc(px, py, r, 0, 7);
    g.fill();
    g.font = "italic 17px Georgia, 'Times New Roman', serif";
    g.textAlign = "center";
    g.lineWidth = 4;
    g.strokeStyle = `rgb(${theme.paper})`;
    g.fillStyle = theme.ink;
    const dy = py < 34 ? 30 : -17;
    g.strokeText("ij"[at], px + (at ? 13 : -13), py + dy);
    g.fillText("ij"[at], px + (at ? 13 : -13), py + dy);
  }

  drawStar(px, py, theme) {
    const { context: g } = this;
    g.beginPath();
    for (let k = 0; k < 10; k++) {
      const [r, a] = [k % 2 ? 4.5 : 11, (k * Math.PI) / 5 - Math.PI / 2];
      g.lineTo(px + r * Math.cos(a), py + r * Math.sin(a));
    }
    g.closePath();
    g.fillStyle = theme.glow;
    g.strokeStyle = theme.ink;
    g.lineWidth = 1.4;
    g.fill();
    g.stroke();
  }
}

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  const part = rough / power;
  return power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
}

// ---- curves -------------------------------------------------------------------------------------

/** Primal and dual closing, and below them the relative gap on a log scale. */
function drawCurves(canvas, lanes, theme) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2.5);
  const { clientWidth: w, clientHeight: t } = canvas;
  if (!w) return;
  canvas.width = Math.round(w * ratio);
  canvas.height = Math.round(t * ratio);
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.font = "11px ui-sans-serif, system-ui, sans-serif";
  const shown = lanes.filter((lane) => lane.history.length);
  if (!shown.length) {
    g.fillStyle = theme.soft;
    g.textAlign = "center";
    g.fillText("nothing has run", w / 2, t / 2);
    return;
  }
  const last = Math.max(1, ...shown.map((lane) => lane.history[lane.history.length - 1][0]));
  const left = 46;
  const x = (updates) => left + (updates / last) * (w - left - 10);
  const middle = Math.round(t * 0.54);
  drawObjectives(g, shown, theme, { x, top: 20, bottom: middle - 8, left, right: w - 10 });
  drawGap(g, shown, theme, { x, top: middle + 20, bottom: t - 18, left, right: w - 10, last });
}

function axis(g, theme, area, ticks, place) {
  g.fillStyle = theme.soft;
  g.textAlign = "right";
  for (const [value, label] of ticks) {
    const y = place(value);
    g.globalAlpha = 0.35;
    g.fillRect(area.left, Math.round(y), area.right - area.left, 1);
    g.globalAlpha = 1;
    g.fillText(label, area.left - 6, y + 4);
  }
}

function line(g, rows, x, y, column) {
  g.beginPath();
  let open = false;
  for (const record of rows) {
    const value = record[column];
    if (value === null) {
      open = false;
      continue;
    }
    if (open) g.lineTo(x(record[0]), y(value));
    else g.moveTo(x(record[0]), y(value));
    open = true;
  }
  g.stroke();
}

function drawObjectives(g, lanes, theme, area) {
  const duals = lanes.flatMap((lane) => lane.history.map((r) => r[2])).filter((v) => v !== null);
  const primals = lanes.flatMap((lane) => lane.history.map((r) => r[1])).filter((v) => v !== null);
  const best = Math.max(...duals);
  let low = Math.min(...duals);
  const reach = Math.max(best - low, Math.abs(best) * 0.05, 1e-9);
  low = Math.max(low, best - 3 * reach);
  const now = Math.max(...lanes.map((lane) => (lane.history[lane.cursor - lane.first] || [])[1] || best));
  const most = Math.max(best + 2.5 * reach, best + 1.1 * (now - best));
  const high = Math.max(Math.min(Math.max(...primals, best), most), best + 0.15 * reach);
  const y = (value) => area.bottom - ((clamp(value, low - reach, high + reach) - low) / (high - low)) * (area.bottom - area.top);
  const step = niceStep((high - low) / 3);
  const ticks = [];
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) ticks.push([v, fmt(Math.abs(v) < step / 1e6 ? 0 : v)]);
  g.save();
  axis(g, theme, area, ticks, y);
  g.beginPath();
  g.rect(area.left, area.top - 2, area.right - area.left + 8, area.bottom - area.top + 4);
  g.clip();
  lanes.forEach((lane, k) => {
    const rows = lane.history.filter((r) => r[1] !== null);
    if (k === 0 && rows.length > 1) {
      g.beginPath();
      rows.forEach((r, at) => (at ? g.lineTo(area.x(r[0]), y(r[1])) : g.moveTo(area.x(r[0]), y(r[1]))));
      [...rows].reverse().forEach((r) => g.lineTo(area.x(r[0]), y(r[2])));
      g.fillStyle = theme.soft;
      g.globalAlpha = 0.13;
      g.fill();
      g.globalAlpha = 1;
    }
    g.lineWidth = 2;
    g.setLineDash(k ? [4, 3] : []);
    g.strokeStyle = theme.orange;
    line(g, lane.history, area.x, y, 1);
    g.strokeStyle = theme.blue;
    line(g, lane.history, area.x, y, 2);
    const now = lane.history[lane.cursor - lane.first] || lane.history[lane.history.length - 1];
    for (const [column, colour] of [[1, theme.orange], [2, theme.blue]]) {
      if (now[column] === null) continue;
      g.beginPath();
      g.arc(area.x(now[0]), y(now[column]), 3.4, 0, 7);
      g.fillStyle = colour;
      g.fill();
    }
  });
  g.restore();
  g.setLineDash([]);
  g.textAlign = "right";
  g.fillStyle = theme.blue;
  g.fillText("dual", area.right, area.top - 9);
  g.fillStyle = theme.orange;
  g.fillText("primal", area.right - 34, area.top - 9);
}

function drawGap(g, lanes, theme, area) {
  const floor = 1e-16;
  const gaps = lanes.flatMap((lane) => lane.history.map((r) => r[4])).filter((v) => v !== null);
  const least = Math.log10(Math.max(Math.min(...gaps, 0.1), floor));
  const [low, high] = [Math.floor(least), Math.max(0, Math.ceil(Math.log10(Math.max(...gaps, 1))))];
  const y = (value) => area.bottom - ((Math.log10(Math.max(value, floor)) - low) / (high - low)) * (area.bottom - area.top);
  const ticks = [];
  const every = Math.max(1, Math.ceil((high - low) / 4));
  for (let e = high; e >= low; e -= every) ticks.push([10 ** e, e === 0 ? "1" : `1e${String(e).replace("-", "−")}`]);
  axis(g, theme, area, ticks, y);
  lanes.forEach((lane, k) => {
    g.lineWidth = 2;
    g.setLineDash(k ? [4, 3] : []);
    g.strokeStyle = k ? theme.orange : theme.ink;
    line(g, lane.history, area.x, y, 4);
    g.setLineDash([]);
    const now = lane.history[lane.cursor - lane.first] || lane.history[lane.history.length - 1];
    if (now[4] !== null) {
      g.beginPath();
      g.arc(area.x(now[0]), y(now[4]), 3.4, 0, 7);
      g.fillStyle = g.strokeStyle;
      g.fill();
    }
  });
  g.textAlign = "right";
  g.fillStyle = theme.soft;
  g.fillText("relative gap, log scale", area.right, area.top - 7);
  g.fillText(`${area.last} update${area.last === 1 ? "" : "s"}`, area.right, area.bottom + 14);
  g.textAlign = "left";
  g.fillText("0", area.left, area.bottom + 14);
}

// ---- the box [0, C]² ----------------------------------------------------------------------------

/** Draw the box, the feasible segment with L and H, and the step from old over unclipped to new. */
function drawBox(step) {
  const [ci, cj] = [step.C_i, step.C_j];
  const values = [step.alpha_i, step.alpha_i_new, step.alpha_j, step.alpha_j_new].map((v) => v ?? 0);
  const endless = ci === null || cj === null;
  const reach = Math.max(...values, 1e-12) * 1.4;
  const [bi, bj] = [ci ?? reach, cj ?? reach];
  const size = 132;
  const at = 26;
  const x = (a) => at + (clamp(a, -0.22 * bi, 1.22 * bi) / bi) * size * 0.86;
  const y = (a) => at + size - 10 - (clamp(a, -0.14 * bj, 1.16 * bj) / bj) * size * 0.86;
  const box = s("svg", { viewBox: `0 0 ${size + 44} ${size + 40}`, class: "mm-box", role: "img", "aria-label": describeBox(step) });
  const add = (tag, props, ...text) => box.append(s(tag, props, ...text));
  add("rect", { x: x(0), y: y(bj), width: x(bi) - x(0), height: y(0) - y(bj), class: endless ? "edge open" : "edge" });
  add("text", { x: x(bi), y: y(0) + 15, class: "tick", "text-anchor": "middle" }, endless ? "∞" : fmt(bi));
  add("text", { x: x(0) - 6, y: y(bj) + 4, class: "tick", "text-anchor": "end" }, endless ? "∞" : fmt(bj));
  add("text", { x: x(0) - 5, y: y(0) + 13, class: "tick", "text-anchor": "end" }, "0");
  add("text", { x: x(bi) + 15, y: y(0) + 19, class: "name", "text-anchor": "middle" }, "α", s("tspan", { dy: 4, "font-size": "9" }, "i"));
  add("text", { x: x(0) - 3, y: y(bj) - 9, class: "name", "text-anchor": "middle" }, "α", s("tspan", { dy: 4, "font-size": "9" }, "j"));
  const sign = step.alpha_j_new === step.alpha_j ? slope(step) : Math.sign(-(step.alpha_i_new - step.alpha_i) / (step.alpha_j_new - step.alpha_j)) || slope(step);
  const partner = (a) => step.alpha_i + sign * (step.alpha_j - a);
  const end = step.H ?? bj;
  add("line", { x1: x(partner(step.L)), y1: y(step.L), x2: x(partner(end)), y2: y(end), class: "segment" });
  for (const [value, name] of [[step.L, "L"], [step.H, "H"]]) {
    if (value === null) continue;
    add("circle", { cx: x(partner(value)), cy: y(value), r: 2.4, class: "end" });
    add("text", { x: x(partner(value)) + 7, y: y(value) + (name === "L" ? 11 : -4), class: "letter" }, name);
  }
  const free = step.alpha_j_unclipped;
  if (free !== null) {
    // Far outside the box only the direction can be shown: stop at the edge of the picture.
    const [di, dj] = [partner(free) - step.alpha_i, free - step.alpha_j];
    const room = (from, by, size) => (by === 0 ? 1 : ((by > 0 ? 1.16 : -0.14) * size - from) / by);
    const part = Math.min(1, room(step.alpha_i, di, bi), room(step.alpha_j, dj, bj));
    const [px, py] = [x(step.alpha_i + part * di), y(step.alpha_j + part * dj)];
    add("line", { x1: x(step.alpha_i), y1: y(step.alpha_j), x2: px, y2: py, class: "way" });
    add("circle", { cx: px, cy: py, r: 4.2, class: "unclipped" });
  }
  add("circle", { cx: x(step.alpha_i), cy: y(step.alpha_j), r: 4, class: "old" });
  add("circle", { cx: x(step.alpha_i_new), cy: y(step.alpha_j_new), r: 4.8, class: "new" });
  return box;
}

const slope = (step) => (step.y_i !== undefined ? step.y_i * step.y_j : 1);

function describeBox(step) {
  return `The box of the two α: from ${fmt(step.alpha_i)}, ${fmt(step.alpha_j)} along the segment L = ${fmt(step.L)} to H = ${fmt(step.H)}; unclipped ${fmt(step.alpha_j_unclipped)}, new ${fmt(step.alpha_i_new)}, ${fmt(step.alpha_j_new)}.`;
}

/** One variable alone: its interval, where it was, where its parabola ends, where it went. */
function drawInterval(step) {
  const top = step.C_i ?? (Math.max(step.alpha_i_new, step.alpha_i, 1e-12) * 1.4);
  const x = (a) => 24 + (clamp(a, -0.15 * top, 1.15 * top) / top) * 110;
  const box = s("svg", { viewBox: "0 0 166 62", class: "mm-box wide", role: "img", "aria-label": `α moves from ${fmt(step.alpha_i)} to ${fmt(step.alpha_i_new)} in its interval` });
  const add = (tag, props, ...text) => box.append(s(tag, props, ...text));
  add("line", { x1: x(0), y1: 28, x2: x(top), y2: 28, class: "segment" });
  add("text", { x: x(0), y: 48, class: "tick", "text-anchor": "middle" }, "0");
  add("text", { x: x(top), y: 48, class: "tick", "text-anchor": "middle" }, step.C_i === null ? "∞" : fmt(top));
  if (step.alpha_i_unclipped !== null) add("circle", { cx: x(step.alpha_i_unclipped), cy: 28, r: 4.2, class: "unclipped" });
  add("circle", { cx: x(step.alpha_i), cy: 28, r: 4, class: "old" });
  add("circle", { cx: x(step.alpha_i_new), cy: 28, r: 4.8, class: "new" });
  return box;
}

/** N0's equations with the step's numbers. */
function equations(step, problem) {
  if (step.j === null || step.j === undefined) {
    if (step.eta === null) {
      return [
        ["ADMM", "(K+ρI) x + A^⊤ λ = s + ρz − μ"],
        ["", "z^{\\text{new}} = \\op{clip}(x + \\frac{μ}{ρ}, [l, u])"],
        ["", "μ^{\\text{new}} = μ + ρ (x − z^{\\text{new}})"],
        ["moved most", `α_i: ${val(step.alpha_i)} → ${val(step.alpha_i_new)}`],
      ];
    }
    return [
      ["slope and curvature", `g_i = ${val(step.E_i)},\\quad K_{ii} = ${val(step.eta)}`],
      ["unclipped", `α_i − \\frac{g_i}{K_{ii}} = ${val(step.alpha_i_unclipped)}`],
      ["new", `α_i^{\\text{new}} = ${val(step.alpha_i_new)}`],
    ];
  }
  const signed = step.y_i === undefined;
  const y = signed ? Math.sign((step.alpha_j_unclipped - step.alpha_j) * (step.E_i - step.E_j)) || 1 : step.y_j;
  const sign = y < 0 ? "−" : "+";
  const eta = `η = K_{ii}+K_{jj}−2K_{ij} = ${val(step.K_ii)}+${fenced(step.K_jj)}−2·${fenced(step.K_ij)} = ${val(step.eta)}`;
  const plus = problem === "svr" ? "±" : "+"; // one-class has no labels, regression signs its β
  const factor = signed ? plus : "+ y_j";
  const free = step.alpha_j_unclipped === null
    ? `η ≤ 0: \\text{the better end of } [L,H]`
    : `= ${val(step.alpha_j)} ${sign} \\frac{${val(step.E_i)}−${fenced(step.E_j)}}{${val(step.eta)}} = ${val(step.alpha_j_unclipped)}`;
  const clipped = `α_j^{\\text{new}} = \\op{clip}(α_j^{\\text{free}}, [${val(step.L)}, ${val(step.H ?? Infinity)}]) = ${val(step.alpha_j_new)}`;
  const product = signed ? "" : "y_iy_j";
  const partner = `α_i^{\\text{new}} = α_i ${signed ? plus : "+"} ${product}(α_j−α_j^{\\text{new}}) = ${val(step.alpha_i_new)}`;
  const rule = `α_j^{\\text{free}} = α_j ${factor} \\frac{E_i−E_j}{η}`;
  return [["", eta], ["(96)", rule], ["", free], ["(97)", clipped], ["(98)", partner]];
}

// ---- the lab ------------------------------------------------------------------------------------

let serial = 0;

/** Build the lab in an element, on a transport; the page keeps its state in the URL. */
export function mount(root, transport, { page = false } = {}) {
  return new Lab(root, transport, page);
}

class Lab {
  constructor(root, transport, page) {
    Object.assign(this, { root, page, lanes: [], points: [], label: 1, selected: null, hovered: null });
    Object.assign(this, { playing: false, training: false, speed: 10, owed: 0, stop: 0, touring: false, fitted: null });
    this.id = `mm${++serial}`;
    root.replaceChildren();
    this.build();
    this.applyTheme(recall("theme") || "auto");
    this.line = new Line(transport, (reply) => this.hear(reply));
    this.line.changed = () => this.mark();
    transport.opened = () => this.greet();
    transport.lost = () => this.lost();
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(this.stage);
    if (page) this.follow();
    transport.start();
    this.transport = transport;
    this.beat = (now) => {
      this.tick(now);
      this.frame = requestAnimationFrame(this.beat);
    };
    this.frame = requestAnimationFrame(this.beat);
  }

  destroy() {
    cancelAnimationFrame(this.frame);
    this.observer.disconnect();
    this.transport.stop?.();
  }

  // ---- talking ----------------------------------------------------------------------------------

  greet() {
    this.line.reset();
    this.say("");
    const wanted = this.page && !this.known ? fromHash(location.hash) : this.known && { ...this.known };
    this.training = true;
    this.line.ask(wanted ? { type: "hello", document: wanted } : { type: "hello" });
  }

  /** Say whether anything is still to come: for tests, and for who styles the page. */
  mark() {
    const ready = this.line.idle && !this.playing && !this.training;
    this.root.dataset.state = !ready ? "busy" : this.fine ? "idle" : "ready"; // idle: nothing will change
  }

  lost() {
    this.line.reset();
    this.pause();
    this.say("The lab's server is gone. Start it again with maxmargin lab; this page then goes on.", true);
  }

  follow() {
    window.addEventListener("hashchange", () => {
      if (location.hash === this.hash) return;
      const wanted = fromHash(location.hash);
      if (wanted) this.open(wanted);
    });
    window.addEventListener("keydown", (event) => this.shortcut(event));
  }

  open(doc) {
    this.fitted = null;
    this.edit({ type: "open", document: doc });
  }

  /** Anything that changes the document: the lab trains anew. */
  edit(message) {
    this.playing = false;
    this.training = true;
    this.line.ask(message);
    this.transportBar();
  }

  set(settings, live) {
    Object.assign(this.doc.settings, settings); // the next click builds on it before the answer comes
    this.edit(live === undefined ? { type: "set", settings } : { type: "set", settings, live });
  }

  hear({ header, arrays }) {
    if (header.type === "hello") this.welcome(header);
    else if (header.type === "document") this.describe(header);
    else if (header.type === "frame") this.show(header, arrays);
    else if (header.type === "surface") this.refined(arrays, header.view);
    else if (header.type === "export") this.exported(header);
    else if (header.type === "notice") this.say(header.text);
    else if (header.type === "error") {
      this.pause();
      this.say(header.text[0].toUpperCase() + header.text.slice(1), true);
      if (header.re !== null || !this.about) this.line.ask({ type: "hello" }); // what was refused must not stand here
    }
  }

  welcome(header) {
    this.about = header;
    options(this.preset, [...header.presets, ["", "Your own points"]]);
    options(this.problem, header.problems.map((name) => [name, PROBLEM[name].name]));
    options(this.scaling, header.scalings.map((name) => [name, SCALING[name]]));
    options(this.solver, header.solvers.map((name) => [name, name]));
    options(this.rival, header.solvers.map((name) => [name, name]));
  }

  describe(header) {
    this.doc = header;
    this.points = header.points;
    this.known = header.document;
    this.selected = this.selected !== null && this.selected < this.points.length ? this.selected : null;
    if (this.page) {
      this.hash = toHash(header.document.preset ? header.document : { preset: null, settings: header.settings }, header.points);
      history.replaceState(null, "", this.hash);
      this.hash = location.hash;
    }
    const source = header.document.preset || "own";
    if (this.fitted === null || (source !== "own" && this.fitted !== source)) {
      this.fitted = source;
      this.reframe();
    }
    this.panels();
  }

  show(header, arrays) {
    this.lanes = header.lanes.map((lane, k) => {
      const before = this.lanes[k];
      const goes = before?.ran && lane.since > 0;
      const first = goes ? before.first : lane.since;
      const kept = goes ? before.history.slice(0, lane.since - first) : [];
      const own = {};
      for (const [name, array] of Object.entries(arrays)) {
        const [index, rest] = name.split("/");
        if (Number(index) === k) own[rest] = array;
      }
      return { ...lane, view: header.view, first, history: [...kept, ...(lane.history || [])], arrays: own };
    });
    this.dirty = true;
    this.changed = performance.now();
    this.fine = false;
    const more = this.lanes.some((lane) => lane.more);
    if (this.training && more && this.lanes.every((lane) => lane.ran)) this.again = true;
    else if (this.training) {
      this.training = false;
      this.again = false;
    }
    if (this.playing && !more && this.lanes.every((lane) => lane.status)) this.pause();
    this.report();
  }

  refined(arrays, view) {
    for (const [name, array] of Object.entries(arrays)) {
      const lane = this.lanes[Number(name.split("/")[0])];
      if (lane && !this.playing && this.line.idle) Object.assign(lane, { view, arrays: { ...lane.arrays, grid: array } });
    }
    this.dirty = true;
  }

  /** Sixty times a second: draw what changed, and ask for the next steps. */
  tick(now) {
    const past = Math.min(now - (this.last || now), 250);
    this.last = now;
    if (this.again && this.line.idle) {
      this.again = false;
      this.line.ask({ type: "train" });
    }
    if (this.playing) {
      this.owed = Math.min(this.owed + (past * this.speed) / 1000, 1000);
      if (this.line.idle && this.owed >= 1) {
        const n = Math.floor(this.owed);
        this.owed -= n;
        this.line.ask({ type: "step", n });
      }
    } else if (!this.fine && !this.training && this.line.idle && this.changed && now - this.changed > 140) {
      this.fine = true;
      if (this.lanes.some((lane) => lane.ran)) this.line.ask({ type: "refine" });
      this.mark();
    }
    const glowing = this.lanes.some((lane) => lane.step) && !still.matches;
    if (this.dirty || (glowing && now - (this.drawn || 0) > 48)) this.draw(now);
  }

  // ---- drawing ----------------------------------------------------------------------------------

  draw(now) {
    this.dirty = false;
    this.drawn = now;
    if (!this.doc) return;
    const settings = this.doc.settings;
    const scene = {
      theme: this.theme,
      points: this.points,
      selected: this.selected,
      hovered: this.hovered,
      regression: settings.problem === "svr",
      single: settings.problem === "svr" || settings.problem === "one_class",
      epsilon: settings.epsilon,
      pulse: still.matches ? 0 : Math.sin(now / 260),
    };
    this.planes.forEach((plane, k) => {
      if (!plane.canvas.hidden && plane.width) plane.draw({ ...scene, lane: this.lanes[k]?.ran ? this.lanes[k] : null });
    });
  }

  resized() {
    for (const plane of this.planes) if (!plane.canvas.hidden) plane.fit();
    this.reframe();
    drawCurves(this.curves, this.drawable(), this.theme);
    this.draw(performance.now());
  }

  drawable() {
    return this.lanes.filter((lane) => lane.ran);
  }

  /** Choose what the canvas shows, and tell Python where to compute. */
  reframe() {
    const plane = this.planes[0];
    plane.fit();
    if (!plane.width || !this.doc) return;
    plane.frame(this.doc.box, this.doc.settings.problem === "svr");
    const second = this.planes[1];
    if (!second.canvas.hidden) {
      second.fit();
      second.view = plane.view;
    }
    const long = Math.max(plane.width, plane.height);
    const cells = (length) => clamp(Math.round((96 * length) / long), 24, 96);
    const round = Object.fromEntries(Object.entries(plane.view).map(([k, v]) => [k, Number(v.toPrecision(8))]));
    Object.assign(plane.view, round);
    const wanted = { type: "view", ...round, columns: cells(plane.width), rows: cells(plane.height) };
    if (JSON.stringify(wanted) === this.viewed) return;
    this.viewed = JSON.stringify(wanted);
    this.line.ask(wanted);
  }

  // ---- what stands beside the canvas ------------------------------------------------------------

  report() {
    const lane = this.lanes[0];
    this.solverWords.textContent = lane?.about || "";
    this.explain(lane);
    this.certificate(lane);
    this.legend(lane);
    this.stepCard(lane);
    this.raceBar();
    this.transportBar();
    drawCurves(this.curves, this.drawable(), this.theme);
    if (this.hovered !== null || this.selected !== null) this.tooltip();
  }

  explain(lane) {
    const note = this.lanes.map((each) => each.note).find(Boolean);
    this.note.hidden = !note;
    const key = JSON.stringify(note);
    if (!note || key === this.noted) {
      this.noted = key;
      return;
    }
    this.noted = key;
    const fixes = note.fixes.map((fix) => h("button", { class: "mm-button", onclick: () => this.set(fix.settings) }, fix.label));
    put(this.note, h("strong", {}, note.title), h("p", {}, note.text), h("div", { class: "mm-fixes" }, ...fixes));
    this.announce(`${note.title}. ${note.text}`);
  }

  certificate(lane) {
    const c = lane?.ran ? lane.certificate : null;
    this.gap.textContent = c ? `gap ${sci(c.relative_gap)}` : "gap –";
    this.status.textContent = lane?.status ? lane.status.replace("_", " ") : lane?.ran ? "not yet optimal" : "no answer";
    this.status.className = `mm-chip ${lane?.status === "optimal" ? "good" : lane?.status === "infeasible" ? "bad" : ""}`;
    this.verdict.textContent = lane?.ran ? lane.verdict : "";
    const facts = c
      ? [
          ["primal", c.primal === null ? "∞" : fmt(c.primal, 6), "mm-primal"],
          ["dual", fmt(c.dual, 6), "mm-dual"],
          ["KKT violation", sci(c.kkt_violation)],
          ["support vectors", `${lane.n_support} of ${this.points.length}`],
          ...Object.entries(lane.parameters).map(([name, value]) => [{ epsilon: "ε", eta: "η", rho: "ρ" }[name] || name, fmt(value, 4)]),
        ]
      : [];
    put(this.facts, ...facts.map(([name, value, kind]) => h("div", { class: kind }, h("dt", {}, name), h("dd", {}, value))));
  }

  names() {
    const problem = this.doc?.settings.problem;
    return problem === "svr" ? TUBE : problem === "one_class" ? CLOUD : CASE;
  }

  legend(lane) {
    if (!lane?.ran || !lane.arrays.state) {
      put(this.key);
      this.keyed = "";
      return;
    }
    const { state, case: kind } = lane.arrays;
    const count = (test) => state.data.reduce((sum, value, k) => sum + (test(value, kind.data[k]) ? 1 : 0), 0);
    const wrong = count((v, c) => c === 3);
    const { problem } = this.doc.settings;
    const [letter, top] = { nu: ["α", "Kₛ"], one_class: ["α", "1"], svr: ["|β|", "C"], hard: ["α"], squared: ["α"] }[problem] || ["α", "C"];
    const entries = [
      ["zero", count((v) => v === 0), `${letter} = 0`],
      ["free", count((v) => v === 1), top ? `0 < ${letter} < ${top}` : `${letter} > 0`],
      ["bound", count((v) => v === 2), top ? `${letter} = ${top}` : ""],
      ["wrong", wrong, this.names()[3] || ""],
    ].filter((entry) => entry[2]);
    const text = entries.map((entry) => entry.slice(0, 3).join(":")).join();
    if (text === this.keyed) return;
    this.keyed = text;
    put(this.key, ...entries.map(([name, number, words]) => h("span", { class: "mm-key" }, mark(name), h("b", {}, String(number)), ` ${words}`)));
  }

  stepCard(lane) {
    const step = lane?.step;
    const key = step ? JSON.stringify(step) : `none ${lane?.solver} ${lane?.ran} ${this.doc?.settings.problem}`;
    if (key === this.stepped) return;
    this.stepped = key;
    if (!step) {
      put(this.step,
        h("h2", {}, "One step"),
        lane?.ran && h("p", {}, "Press ", h("kbd", {}, "Step"), ` to watch ${lane.solver} from α = 0: which α it chooses and why, the segment it may move on, and the notes’ equations with their numbers.`),
        ...(lane?.ran ? optimality(this.doc.settings) : []),
      );
      return;
    }
    const pair = step.j !== null && step.j !== undefined;
    const chosen = pair ? math(`(i, j) = (${step.i}, ${step.j})`) : math(`i = ${step.i}`);
    const errors = pair
      ? [math(`E_i = ${val(step.E_i)}`), math(`E_j = ${val(step.E_j)}`)]
      : step.E_i === null ? [] : [math(`g_i = ${val(step.E_i)}`)];
    const picture = pair ? drawBox(step) : step.alpha_i_new !== null && step.eta !== null ? drawInterval(step) : null;
    const rows = equations(step, this.doc.settings.problem).map(([tag, tex]) => h("div", { class: "mm-equation" }, math(tex), h("span", { class: "mm-tag" }, tag)));
    put(this.step,
      h("h2", {}, `Step ${lane.updates}`),
      h("div", { class: "mm-steptop" },
        picture,
        h("div", { class: "mm-stepwords" },
          h("p", { class: "mm-chosen" }, chosen),
          h("p", {}, sentence(step.why)),
          h("p", { class: "mm-errors" }, ...errors),
          h("p", { class: "mm-soft" }, `The dual ${step.change < 0 ? "falls" : "rises"} by ${fmt(Math.abs(step.change))}.`),
        )),
      picture && h("p", { class: "mm-soft mm-boxkey" }, dot("old"), "before ", dot("unclipped"), "unclipped ", dot("new"), "after"),
      ...rows,
    );
    rows.forEach(squeeze);
  }

  raceBar() {
    const racing = this.lanes.length > 1;
    if (racing === this.planes[1].canvas.hidden) {
      this.planes[1].canvas.hidden = !racing;
      this.stage.classList.toggle("race", racing);
      this.viewed = null;
      this.resized();
    }
    this.race.setAttribute("aria-pressed", String(racing));
    this.rivals.hidden = !racing;
    if (!racing) return;
    this.tags.forEach((tag, k) => put(tag, ...racer(this.lanes[k])));
    this.rival.value = this.doc.settings.rival;
  }

  transportBar() {
    this.mark();
    const lane = this.lanes[0];
    const busy = this.playing || (this.training && this.lanes.some((each) => each.more));
    this.play.textContent = busy ? "Pause" : "Play";
    this.play.setAttribute("aria-pressed", String(busy));
    const ran = Boolean(lane?.ran);
    for (const button of [this.play, this.stepButton, this.train, this.back, this.restart]) button.disabled = !ran;
    this.scrub.disabled = !ran;
    this.counter.textContent = ran ? `update ${lane.updates}` : "";
    if (!ran) return;
    this.scrub.max = String(Math.max(lane.history.length - 1, 1));
    if (document.activeElement !== this.scrub) this.scrub.value = String(lane.cursor - lane.first);
  }

  // ---- panels -----------------------------------------------------------------------------------

  panels() {
    const { settings, document: doc } = this.doc;
    this.preset.value = doc.preset || "";
    this.number.textContent = `${this.points.length} point${this.points.length === 1 ? "" : "s"}`;
    this.problem.value = settings.problem;
    this.scaling.value = settings.scaling;
    this.solver.value = settings.solver;
    this.scalingRow.hidden = settings.problem !== "soft";
    this.classes.hidden = settings.problem === "svr" || settings.problem === "one_class";
    this.undo.disabled = !this.doc.undo;
    this.redo.disabled = !this.doc.redo;
    const key = JSON.stringify([settings, this.points.length, this.doc.K_m]);
    if (key === this.panelled) return;
    this.panelled = key;
    const problem = PROBLEM[settings.problem];
    const [first, tag] = problem.scaled ? problem.scaled[settings.scaling] : [problem.lines[0], problem.tag];
    put(this.formula,
      h("div", { class: "mm-equation" }, math(first), h("span", { class: "mm-tag" }, tag)),
      ...problem.lines.slice(1).map((line) => h("div", { class: "mm-equation mm-constraint" }, math(line))),
    );
    this.sliders(this.problemSliders, problem.sliders, settings, (name) => this.problemSlider(name));
    put(this.kernelFormula, kernelMath(this.doc.formula));
    this.kernelFormula.classList.toggle("long", this.doc.formula.length > 30);
    this.terms();
    this.sliders(this.solverSliders, ["tol"], settings, (name) => ({ name, value: settings.tol, put: (v, live) => this.set({ tol: v }, live) }));
  }

  /** Make the sliders anew only when others are needed: one that is being dragged must stay. */
  sliders(place, names, settings, describe) {
    const key = names.join();
    if (place.dataset.names !== key) {
      place.dataset.names = key;
      put(place, ...names.map((name) => new Slider(this.id, this.about.ranges, describe(name)).node));
    }
    names.forEach((name, k) => place.children[k].slider.update(describe(name)));
  }

  problemSlider(name) {
    const { settings } = this.doc;
    if (name !== "K_m") return { name, value: settings[name], put: (v, live) => this.set({ [name]: v }, live) };
    const n = Math.max(this.points.length, 1);
    const range = [n * settings.K_s * this.about.ranges.nu[0], n * settings.K_s];
    const put = (v, live) => this.set({ nu: clamp(v / (n * settings.K_s), ...this.about.ranges.nu) }, live);
    return { name, value: this.doc.K_m, range, put };
  }

  terms() {
    const terms = this.doc.settings.kernel;
    const shape = terms.map((term) => term.op + term.kind).join();
    const replaced = (k, change) => terms.map((term, at) => (at === k ? { ...term, ...change } : term));
    const describe = (k) => (name) => ({ name, value: this.doc.settings.kernel[k][name], put: (v, live) => this.set({ kernel: this.doc.settings.kernel.map((t, at) => (at === k ? { ...t, [name]: v } : t)) }, live) });
    const needed = (term) => [...KERNEL[term.kind].sliders, ...(terms.length > 1 ? ["weight"] : [])];
    if (this.termed !== shape) {
      this.termed = shape;
      put(this.termList, ...terms.map((term, k) => this.term(term, k, replaced)));
    }
    terms.forEach((term, k) => this.sliders(this.termList.children[k].querySelector(".mm-sliders"), needed(term), this.doc.settings, describe(k)));
    for (const button of this.compose) button.disabled = terms.length >= 4;
  }

  term(term, k, replaced) {
    const pick = h("select", { "aria-label": `Kernel ${k + 1}`, onchange: () => this.set({ kernel: replaced(k, { kind: pick.value }) }) });
    options(pick, Object.entries(KERNEL).map(([name, { name: title }]) => [name, title]));
    pick.value = term.kind;
    const away = h("button", { class: "mm-icon", "aria-label": `Remove kernel ${k + 1}`, title: "Remove", onclick: () => this.set({ kernel: this.doc.settings.kernel.filter((_, at) => at !== k) }) }, "×");
    const only = this.doc.settings.kernel.length === 1;
    return h("div", { class: "mm-term" }, h("div", { class: "mm-row" }, k > 0 && h("span", { class: "mm-op" }, term.op === "*" ? "×" : "+"), pick, !only && away), h("div", { class: "mm-sliders" }));
  }

  // ---- building ---------------------------------------------------------------------------------

  build() {
    const button = (text, props = {}) => h("button", { class: "mm-button", type: "button", ...props }, text);
    this.undo = button("Undo", { onclick: () => this.edit({ type: "undo" }), title: "Ctrl+Z" });
    this.redo = button("Redo", { onclick: () => this.edit({ type: "redo" }), title: "Ctrl+Shift+Z" });
    this.race = button("Race", { "aria-pressed": "false", onclick: () => this.toggleRace() });
    this.tour = button("Tour", { onclick: () => this.openTour(0) });
    const file = h("input", { type: "file", accept: ".csv,.txt,text/csv", hidden: true, onchange: () => this.upload(file, "csv") });
    const traceFile = h("input", { type: "file", accept: ".json", hidden: true, onchange: () => this.upload(traceFile, "replay") });
    const menu = h("details", { class: "mm-menu" },
      h("summary", { class: "mm-button" }, "Export"),
      h("div", { class: "mm-items", onclick: () => (menu.open = false) },
        button("Python code", { onclick: () => this.line.ask({ type: "export", kind: "python" }) }),
        button("Picture (PNG)", { onclick: () => this.picture() }),
        button("Trace file", { onclick: () => this.line.ask({ type: "export", kind: "trace" }) }),
        button("Open a trace…", { onclick: () => traceFile.click() }),
        this.page && button("Copy link", { onclick: () => this.copyLink() })));
    this.help = this.buildHelp();
    this.traceFile = traceFile;
    const header = h("header", { class: "mm-head" },
      h("h1", {}, h("span", { class: "mm-word" }, "maxmargin"), " lab"),
      h("nav", { class: "mm-nav", "aria-label": "Lab" }, this.tour, this.race, this.undo, this.redo, menu, traceFile,
        button("Theme", { onclick: () => this.cycleTheme(), title: "Light, dark, or as the system" }),
        button("Keys", { onclick: () => this.help.showModal(), title: "Keyboard (?)" })));
    this.tourBar = h("section", { class: "mm-tour", hidden: true, "aria-label": "Guided tour" });
    this.toast = h("div", { class: "mm-toast", role: "status", hidden: true });
    this.speaker = h("div", { class: "mm-speaker", "aria-live": "polite" });
    this.root.append(header, this.tourBar, this.buildStage(), this.buildSide(), this.buildPanels(file, button), this.toast, this.speaker, this.help);
  }

  buildStage() {
    const button = (text, props) => h("button", { class: "mm-button", type: "button", ...props }, text);
    const canvas = h("canvas", { class: "mm-canvas", tabindex: "0", role: "application", "aria-label": "Data. Click to add a point; full stop and comma choose a point, arrows move it, Delete removes it." });
    const second = h("canvas", { class: "mm-canvas", hidden: true, "aria-label": "The same data with the second solver" });
    this.planes = [new Plane(canvas), new Plane(second)];
    this.tags = [h("span", { class: "mm-lane" }), h("span", { class: "mm-lane" })];
    this.note = h("div", { class: "mm-note", role: "status", hidden: true });
    this.tip = h("div", { class: "mm-tip", hidden: true });
    this.stage = h("div", { class: "mm-stage" }, canvas, second, this.note, this.tip);
    this.listen(canvas);
    this.train = button("Train", { class: "mm-button strong", onclick: () => this.startTraining(), title: "Solve to the end (T)" });
    this.play = button("Play", { onclick: () => this.toggle(), title: "Space" });
    this.back = button("Back", { onclick: () => this.go("back"), title: "One step back (B)" });
    this.stepButton = button("Step", { onclick: () => this.go("step"), title: "One step (S)" });
    this.restart = button("Reset", { onclick: () => this.go("reset"), title: "Back to α = 0 (R)" });
    this.scrub = h("input", { type: "range", min: "0", max: "1", value: "0", step: "1", class: "mm-scrub", title: "Where in the run", "aria-label": "Where in the run", oninput: () => this.seek() });
    this.counter = h("span", { class: "mm-counter" });
    const speed = h("input", { type: "range", min: "0", max: "3.7", step: "0.05", value: "1", "aria-label": "Speed, steps per second", oninput: () => {
      this.speed = 10 ** Number(speed.value);
      rate.textContent = `${fmt(this.speed, 2)} /s`;
    } });
    const rate = h("output", {}, "10 /s");
    this.key = h("div", { class: "mm-legend", "aria-label": "Points by KKT case" });
    this.rival = h("select", { "aria-label": "Second solver", onchange: () => this.set({ rival: this.rival.value }) });
    this.rivals = h("div", { class: "mm-rivals", hidden: true }, this.tags[0], h("span", {}, "against ", this.rival), this.tags[1]);
    return h("section", { class: "mm-centre", "aria-label": "Canvas" },
      this.rivals, this.stage,
      h("div", { class: "mm-transport" }, this.train, this.play, this.back, this.stepButton, this.restart, this.scrub, h("label", { class: "mm-speed", title: "Speed of Play" }, "Speed", speed, rate)),
      h("div", { class: "mm-under" }, this.key, this.counter));
  }

  buildSide() {
    this.gap = h("output", { class: "mm-gap", id: `${this.id}-gap` }, "gap –");
    this.status = h("span", { class: "mm-chip" });
    this.verdict = h("p", { class: "mm-soft mm-verdict" });
    this.facts = h("dl", { class: "mm-facts" });
    this.curves = h("canvas", { class: "mm-curves", role: "img", "aria-label": "Primal and dual over the updates, and below them the relative gap on a log scale" });
    this.step = h("section", { class: "mm-card mm-step", "aria-label": "The step" });
    return h("section", { class: "mm-side", "aria-label": "Proof" },
      h("section", { class: "mm-card", "aria-label": "Certificate" }, h("div", { class: "mm-gaprow" }, this.gap, this.status), this.verdict, this.facts),
      h("section", { class: "mm-card mm-plot", "aria-label": "Curves" }, this.curves),
      this.step);
  }

  buildPanels(file, button) {
    this.preset = h("select", { "aria-label": "Preset", onchange: () => {
      if (!this.preset.value) return;
      this.fitted = null;
      this.edit({ type: "preset", name: this.preset.value });
    } });
    const pick = (label, text, kind) => h("button", { class: "mm-seg", type: "button", "aria-pressed": String(label === this.label), onclick: () => this.choose(label) }, mark(kind), text);
    this.segments = [pick(1, "class +1", "plus"), pick(-1, "class −1", "minus")];
    this.classes = h("div", { class: "mm-segments", role: "group", "aria-label": "Class of new points" }, ...this.segments);
    this.number = h("span", { class: "mm-soft" });
    this.problem = h("select", { "aria-label": "Problem", onchange: () => {
      this.fitted = null;
      this.set({ problem: this.problem.value });
    } });
    this.scaling = h("select", { "aria-label": "Scaling of C", onchange: () => this.set({ scaling: this.scaling.value }) });
    this.scalingRow = h("label", { class: "mm-row mm-soft" }, "scaling ", this.scaling);
    this.formula = h("div", { class: "mm-formula" });
    this.problemSliders = h("div", { class: "mm-sliders" });
    this.kernelFormula = h("div", { class: "mm-formula" });
    this.termList = h("div", {});
    const add = (op, sign) => button(`${sign} kernel`, { onclick: () => this.set({ kernel: [...this.doc.settings.kernel, { ...TERM, kind: "linear", op }] }) });
    this.compose = [add("+", "+"), add("*", "×")];
    this.solver = h("select", { "aria-label": "Solver", onchange: () => this.set({ solver: this.solver.value }) });
    this.solverSliders = h("div", { class: "mm-sliders" });
    this.solverWords = h("p", { class: "mm-soft mm-words" });
    const panel = (title, ...children) => h("section", { class: "mm-card", "aria-label": title }, h("h2", {}, title), ...children);
    return h("div", { class: "mm-panels" },
      panel("Data", this.preset, this.classes, h("div", { class: "mm-row" }, this.number, h("span", { class: "mm-fill" }), button("CSV…", { onclick: () => file.click() }), button("Clear", { onclick: () => this.clear() })), file),
      panel("Problem", this.problem, this.scalingRow, this.formula, this.problemSliders),
      panel("Kernel", this.kernelFormula, this.termList, h("div", { class: "mm-row" }, ...this.compose)),
      panel("Solver", this.solver, this.solverSliders, this.solverWords));
  }

  buildHelp() {
    const keys = [
      ["Space", "Play or pause"], ["S", "One step"], ["B", "One step back"], ["T", "Train to the end"], ["R", "Reset to α = 0"],
      ["Ctrl+Z, Ctrl+Shift+Z", "Undo, redo"], ["1, 2", "Class of new points: +1, −1"], ["?", "This list"],
      [". and ,", "On the canvas: choose the next or previous point"], ["Arrows", "Move the chosen point (Shift: further)"],
      ["Delete", "Remove it"], ["X", "Give it the other class"], ["Enter", "Add a point beside it, or in the middle"], ["Escape", "Let go of it"],
    ];
    const dialog = h("dialog", { class: "mm-help", "aria-label": "Keyboard" },
      h("h2", {}, "Keyboard and mouse"),
      h("p", {}, "Click adds a point of the chosen class, dragging moves it, right-click removes it; on a touch screen tap a point for its row and its buttons."),
      h("dl", {}, ...keys.flatMap(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)])),
      h("form", { method: "dialog" }, h("button", { class: "mm-button" }, "Close")));
    return dialog;
  }

  // ---- the transport bar ------------------------------------------------------------------------

  startTraining() {
    this.playing = false;
    this.training = true;
    const lane = this.lanes[0];
    if (lane && this.lanes.every((each) => each.status && !each.more)) this.line.ask({ type: "reset" });
    this.line.ask({ type: "train" });
    this.transportBar();
  }

  toggle() {
    if (this.playing || this.training) this.pause();
    else {
      this.playing = true;
      this.owed = 1;
    }
    this.transportBar();
  }

  pause() {
    this.playing = this.training = this.again = false;
    this.transportBar();
  }

  go(type) {
    this.playing = this.training = this.again = false;
    this.line.ask(type === "reset" ? { type } : { type, n: 1 });
    this.transportBar();
  }

  seek() {
    this.playing = this.training = this.again = false;
    const cursor = Number(this.scrub.value) + (this.lanes[0]?.first || 0);
    this.line.waiting = this.line.waiting.filter((message) => message.type !== "seek");
    this.line.ask({ type: "seek", cursor });
  }

  toggleRace() {
    const racing = this.lanes.length > 1;
    const other = this.doc.settings.solver === "TextbookSMO" ? "SMO" : "TextbookSMO";
    this.set({ rival: racing ? null : other });
  }

  choose(label) {
    this.label = label;
    this.segments.forEach((segment, k) => segment.setAttribute("aria-pressed", String((k ? -1 : 1) === label)));
  }

  clear() {
    this.selected = null;
    this.edit({ type: "clear" });
  }

  // ---- mouse, touch, keys -----------------------------------------------------------------------

  listen(canvas) {
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    let held = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !this.doc) return;
      const [px, py] = at(event);
      const index = this.nearest(px, py);
      held = { index, px, py, moved: false };
      canvas.setPointerCapture(event.pointerId);
      if (index !== null) this.select(index);
    });
    canvas.addEventListener("pointermove", (event) => {
      const [px, py] = at(event);
      if (!held) {
        this.hover(this.nearest(px, py));
        return;
      }
      held.moved ||= Math.hypot(px - held.px, py - held.py) > 4;
      if (held.index !== null && held.moved) this.move(held.index, ...this.planes[0].toWorld(px, py), true);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (!held) return;
      const [px, py] = at(event);
      if (held.index !== null && held.moved) this.move(held.index, ...this.planes[0].toWorld(px, py), false);
      else if (held.index === null && !held.moved) this.add(...this.planes[0].toWorld(px, py));
      held = null;
    });
    canvas.addEventListener("pointercancel", () => (held = null));
    canvas.addEventListener("pointerleave", () => this.hover(null));
    canvas.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      const index = this.nearest(...at(event));
      if (index !== null) this.remove(index);
    });
    canvas.addEventListener("keydown", (event) => this.canvasKey(event));
    canvas.addEventListener("blur", () => this.hover(null));
  }

  nearest(px, py) {
    let [best, found] = [15, null];
    this.points.forEach(([x, y], k) => {
      const [qx, qy] = this.planes[0].toScreen(x, y);
      const distance = Math.hypot(px - qx, py - qy);
      if (distance < best) [best, found] = [distance, k];
    });
    return found;
  }

  add(x, y) {
    this.selected = null;
    this.edit({ type: "add", x: tidy(x), y: tidy(y), label: this.label });
  }

  move(index, x, y, live) {
    this.points[index] = [tidy(x), tidy(y), this.points[index][2]];
    this.dirty = true;
    this.edit({ type: "move", index, x: tidy(x), y: tidy(y), live });
  }

  remove(index) {
    this.selected = this.hovered = null;
    this.tip.hidden = true;
    this.edit({ type: "remove", index });
  }

  select(index) {
    this.selected = index;
    this.hovered = null;
    this.dirty = true;
    this.tooltip();
  }

  hover(index) {
    if (index === this.hovered) return;
    this.hovered = index;
    this.dirty = true;
    this.tooltip();
  }

  /** The ledger row of the point under the mouse, or of the chosen one. */
  tooltip() {
    const index = this.hovered ?? this.selected;
    const lane = this.lanes[0];
    const point = index === null ? null : this.points[index];
    this.tip.hidden = !point;
    if (!point) return;
    const rows = [];
    const a = lane?.ran ? lane.arrays : {};
    if (a.alpha && index < a.alpha.data.length) {
      const regression = this.doc.settings.problem === "svr";
      rows.push(["α", `${fmt(a.alpha.data[index])}  of  ${fmt(a.C.data[index])}`]);
      rows.push([regression ? "room in the tube" : "margin", fmt(a.margin.data[index])]);
      rows.push(["distance", fmt(a.geometric.data[index])]);
      rows.push(["slack ξ", fmt(a.slack.data[index])]);
      rows.push(["KKT residual", fmt(a.residual.data[index])]);
      rows.push(["case", this.names()[a.case.data[index]] || "–"]);
    }
    const words = `Point ${index}, ${point[2] > 0 ? "class +1" : "class −1"}`;
    const chosen = index === this.selected;
    const button = (text, act) => h("button", { class: "mm-button", type: "button", onclick: act }, text);
    put(this.tip,
      h("strong", {}, this.classes.hidden ? `Point ${index}` : words), h("span", { class: "mm-soft" }, `  (${fmt(point[0])}, ${fmt(point[1])})`),
      h("dl", {}, ...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
      chosen && h("div", { class: "mm-row" }, !this.classes.hidden && button("Other class", () => this.flip(index)), button("Delete", () => this.remove(index))),
    );
    this.tip.classList.toggle("chosen", chosen);
    const [px, py] = this.planes[0].toScreen(point[0], point[1]);
    const [w, t] = [this.tip.offsetWidth, this.tip.offsetHeight];
    const left = px + 18 + w > this.planes[0].width ? px - 18 - w : px + 18;
    this.tip.style.left = `${clamp(left, 4, Math.max(4, this.stage.clientWidth - w - 4))}px`;
    this.tip.style.top = `${clamp(py - t / 2, 4, Math.max(4, this.stage.clientHeight - t - 4))}px`;
    if (chosen) this.announce(`${words}. ${rows.map((row) => row.join(" ")).join(", ")}`);
  }

  flip(index) {
    this.edit({ type: "label", index, label: -this.points[index][2] });
  }

  canvasKey(event) {
    const n = this.points.length;
    const index = this.selected;
    const v = this.planes[0].view;
    const step = ((v.x1 - v.x0) / 200) * (event.shiftKey ? 8 : 1);
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if ((event.key === "." || event.key === ",") && n) {
      const by = event.key === "." ? 1 : -1;
      this.select(index === null ? (by > 0 ? 0 : n - 1) : (index + by + n) % n);
    } else if (arrows[event.key] && index !== null) {
      const [dx, dy] = arrows[event.key];
      this.move(index, this.points[index][0] + dx * step, this.points[index][1] + dy * step, false);
    } else if ((event.key === "Delete" || event.key === "Backspace") && index !== null) this.remove(index);
    else if ((event.key === "x" || event.key === "X") && index !== null && !event.ctrlKey) this.flip(index);
    else if (event.key === "Enter") {
      const base = index === null ? [(v.x0 + v.x1) / 2, (v.y0 + v.y1) / 2] : this.points[index];
      this.add(base[0] + (index === null ? 0 : 8 * step), base[1]);
    } else if (event.key === "Escape") this.select(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  shortcut(event) {
    const target = event.target;
    const writing = target.matches?.("input[type=text], textarea");
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !writing) {
      event.preventDefault();
      const type = event.shiftKey ? "redo" : "undo";
      if (this.doc?.[type]) this.edit({ type });
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || writing || this.help.open || target.matches?.("select")) return;
    const press = (button) => !button.disabled && button.click();
    const acts = {
      s: () => press(this.stepButton), b: () => press(this.back), t: () => press(this.train), r: () => press(this.restart),
      1: () => this.choose(1), 2: () => this.choose(-1), "?": () => this.help.showModal(),
    };
    if (event.key === " " && !target.matches?.("button, summary, input")) {
      event.preventDefault();
      press(this.play);
    } else acts[event.key.toLowerCase()]?.();
  }

  // ---- files ------------------------------------------------------------------------------------

  async upload(input, type) {
    const file = input.files[0];
    input.value = "";
    if (!file) return;
    const limit = type === "csv" ? 100_000 : 4_000_000;
    if (file.size > limit) {
      this.say(`${file.name} has ${file.size} bytes; the lab reads at most ${limit}.`, true);
      return;
    }
    const text = await file.text();
    this.fitted = null;
    if (type === "csv") this.edit({ type, text });
    else this.replay(text, file.name);
  }

  replay(text, name) {
    try {
      this.line.ask({ type: "replay", trace: JSON.parse(text) });
      this.playing = this.training = false;
    } catch {
      this.say(`${name} is not a trace: it is not JSON.`, true);
    }
  }

  exported({ filename, text, kind }) {
    save(filename, new Blob([text], { type: kind === "python" ? "text/x-python" : "application/json" }));
    this.say(`Saved ${filename}.`);
  }

  picture() {
    const [plane] = this.planes;
    this.draw(performance.now());
    const ratio = plane.canvas.width / plane.width;
    const copy = h("canvas");
    const below = Math.round(44 * ratio);
    copy.width = plane.canvas.width;
    copy.height = plane.canvas.height + below;
    const g = copy.getContext("2d");
    g.fillStyle = `rgb(${this.theme.paper})`;
    g.fillRect(0, 0, copy.width, copy.height);
    g.drawImage(plane.canvas, 0, 0);
    g.fillStyle = this.theme.ink;
    g.font = `${13 * ratio}px ui-sans-serif, system-ui, sans-serif`;
    const lane = this.lanes[0];
    const words = `${PROBLEM[this.doc.settings.problem].name}, k(u, v) = ${this.doc.formula}, ${this.doc.settings.solver}`;
    const proof = lane?.ran ? `gap ${sci(lane.certificate.relative_gap)} ${lane.status || ""}, ${lane.n_support} support vectors of ${this.points.length}` : "";
    g.fillText(words, 10 * ratio, plane.canvas.height + 18 * ratio);
    g.fillText(proof, 10 * ratio, plane.canvas.height + 36 * ratio);
    copy.toBlob((blob) => save("maxmargin_lab.png", blob));
    this.say("Saved maxmargin_lab.png.");
  }

  async copyLink() {
    try {
      await navigator.clipboard.writeText(location.href);
      this.say("The link to this state is copied.");
    } catch {
      this.say("The link to this state stands in the address bar.");
    }
  }

  // ---- the tour ---------------------------------------------------------------------------------

  openTour(at) {
    const stops = this.about?.tour || [];
    if (!stops[at]) return this.closeTour();
    this.stop = at;
    this.touring = true;
    const stop = stops[at];
    this.open(stop.document);
    const answer = h("div", { class: "mm-answer", hidden: true }, h("p", {}, stop.answer));
    const reveal = (k) => {
      choices.forEach((choice, at) => {
        choice.classList.toggle("right", at === stop.right);
        choice.classList.toggle("wrong", at === k && k !== stop.right);
        choice.disabled = true;
      });
      answer.hidden = false;
      this.showAnswer(stop);
    };
    const choices = stop.choices.map((text, k) => h("button", { class: "mm-choice", type: "button", onclick: () => reveal(k) }, text));
    const button = (text, act, props = {}) => h("button", { class: "mm-button", type: "button", onclick: act, ...props }, text);
    this.tourBar.hidden = false;
    put(this.tourBar,
      h("div", { class: "mm-stop" }, h("h2", {}, `${at + 1}. ${stop.title}`), h("p", { class: "mm-tag" }, stop.notes), h("p", {}, stop.text)),
      h("div", { class: "mm-question" }, h("p", {}, h("em", {}, "Predict first: "), stop.question), ...choices),
      h("div", { class: "mm-reply" }, answer, h("div", { class: "mm-row" },
        button("Previous stop", () => this.openTour(at - 1), { disabled: at === 0 }),
        h("span", { class: "mm-soft" }, `${at + 1} of ${stops.length}`),
        button(at + 1 < stops.length ? "Next stop" : "End of the tour", () => this.openTour(at + 1)),
        button("Close", () => this.closeTour(), { "aria-label": "Close the tour" }))),
    );
    this.resized();
  }

  showAnswer(stop) {
    if (Object.keys(stop.then).length) this.set(stop.then);
    if (stop.action === "step") this.go("step");
    if (stop.action === "reset" || stop.action === "play") {
      this.go("reset");
      this.toggle();
    }
    this.resized();
  }

  closeTour() {
    this.touring = false;
    this.tourBar.hidden = true;
    this.resized();
  }

  // ---- theme, words -----------------------------------------------------------------------------

  cycleTheme() {
    const dark = this.theme === THEMES.dark;
    this.applyTheme(dark ? "light" : "dark");
    this.resized();
  }

  applyTheme(name) {
    remember("theme", name);
    const dark = name === "dark" || (name === "auto" && darkness.matches);
    this.theme = dark ? THEMES.dark : THEMES.light;
    this.root.dataset.theme = dark ? "dark" : "light";
    if (this.page) document.documentElement.dataset.theme = this.root.dataset.theme;
    if (name === "auto" && !this.watching) {
      this.watching = true;
      darkness.addEventListener("change", () => {
        if (recall("theme") !== "auto") return;
        this.applyTheme("auto");
        this.resized();
      });
    }
  }

  say(text, lasting = false) {
    clearTimeout(this.hush);
    this.toast.hidden = !text;
    put(this.toast, text, lasting && h("button", { class: "mm-icon", "aria-label": "Dismiss", onclick: () => this.say("") }, "×"));
    if (text && !lasting) this.hush = setTimeout(() => this.say(""), 5000);
  }

  announce(text) {
    this.speaker.textContent = text;
  }
}

/** A slider with a symbol and a field to type in; logarithmic where the range is. */
class Slider {
  constructor(id, ranges, given) {
    this.ranges = ranges;
    this.name = given.name;
    this.linear = LINEAR.includes(given.name);
    const label = `${id}-${++serial}`;
    this.range = h("input", { type: "range", id: label, "aria-label": SYMBOL[given.name], oninput: () => this.slid(true), onchange: () => this.slid(false) });
    this.field = h("input", { type: "text", inputmode: "decimal", class: "mm-field", "aria-label": `${SYMBOL[given.name]}, value`, onchange: () => this.typed() });
    const symbol = given.name === "degree" || given.name === "weight" || given.name === "tol" ? SYMBOL[given.name] : math(SYMBOL[given.name]);
    this.node = h("div", { class: "mm-slider" }, h("label", { for: label }, symbol), this.range, this.field);
    this.node.slider = this;
    this.given = given;
  }

  update(given) {
    this.given = given;
    [this.low, this.high] = given.range || this.ranges[given.name];
    const whole = given.name === "degree";
    this.range.min = String(this.linear ? this.low : Math.log10(this.low));
    this.range.max = String(this.linear ? this.high : Math.log10(this.high));
    this.range.step = whole ? "1" : this.linear ? "0.1" : "any";
    if (this.sliding) return;
    this.range.value = String(this.linear ? given.value : Math.log10(given.value));
    this.range.setAttribute("aria-valuetext", fmt(given.value));
    if (document.activeElement !== this.field) this.field.value = plain(given.value);
  }

  slid(live) {
    this.sliding = live;
    const raw = Number(this.range.value);
    const value = this.linear ? raw : Number((10 ** raw).toPrecision(2));
    this.put(value, live);
  }

  typed() {
    const value = Number(this.field.value.replace("−", "-").replace(",", "."));
    if (Number.isFinite(value) && this.field.value.trim()) this.put(this.name === "degree" ? Math.round(value) : value);
    else this.field.value = plain(this.given.value);
  }

  put(value, live) {
    const kept = clamp(value, this.low, this.high);
    this.field.value = plain(kept);
    this.given.put(kept, live);
  }
}

// ---- odds and ends ------------------------------------------------------------------------------

const darkness = window.matchMedia("(prefers-color-scheme: dark)");
const still = window.matchMedia("(prefers-reduced-motion: reduce)");

const plain = (value) => String(Number(value.toPrecision(4)));
const tidy = (value) => Number(value.toPrecision(6));

/** The dual, and what its optimum looks like: N0 (71)-(76) in each formulation's letters. */
function optimality({ problem }) {
  const pair = (first, second) => h("div", { class: "mm-implies" }, math(first), math("⇒ " + second));
  const dual = {
    one_class: "\\op{min}_α \\frac{1}{2} ∑_{ij} α_i α_j K_{ij}",
    svr: "\\op{min}_β \\frac{1}{2} ∑_{ij} β_i β_j K_{ij} − ∑_i z_i β_i + ε ∑_i \\text{|}β_i\\text{|}",
    nu: "\\op{min}_α \\frac{1}{2} ∑_{ij} α_i α_j y_i y_j K_{ij}",
  }[problem] || "\\op{max}_α ∑_i α_i − \\frac{1}{2} ∑_{ij} α_i α_j y_i y_j K_{ij}";
  const rows = {
    one_class: [["α_i=0", "f(x_i) ≥ ρ"], ["0<α_i<1", "f(x_i) = ρ"], ["α_i=1", "f(x_i) ≤ ρ"]],
    svr: [["β_i=0", "|z_i−f(x_i)| ≤ ε"], ["0<|β_i|<C", "|z_i−f(x_i)| = ε"], ["|β_i|=C", "|z_i−f(x_i)| ≥ ε"]],
    nu: [["α_i=0", "y_i f(x_i) ≥ η"], ["0<α_i<K_s", "y_i f(x_i) = η"], ["α_i=K_s", "y_i f(x_i) ≤ η"]],
    hard: [["α_i=0", "y_i f(x_i) ≥ 1"], ["α_i>0", "y_i f(x_i) = 1"]],
    squared: [["α_i=0", "y_i f(x_i) ≥ 1"], ["α_i>0", "y_i f(x_i) = 1 − \\frac{α_i}{2C}"]],
  }[problem] || [["α_i=0", "y_i f(x_i) ≥ 1"], ["0<α_i<C", "y_i f(x_i) = 1"], ["α_i=C", "y_i f(x_i) ≤ 1"]];
  return [
    h("div", { class: "mm-dualform" }, math(dual, { block: true })),
    h("p", { class: "mm-soft" }, "At its maximum, with f(x) = w·φ(x) + b:".replace("maximum", problem === "one_class" || problem === "svr" || problem === "nu" ? "minimum" : "maximum")),
    ...rows.map((each) => pair(...each)),
  ];
}

function options(select, pairs) {
  put(select, ...pairs.map(([value, text]) => h("option", { value }, text)));
}

const dot = (kind) => s("svg", { viewBox: "0 0 12 12", class: "mm-dot mm-box", "aria-hidden": "true" }, s("circle", { cx: 6, cy: 6, r: 4.2, class: kind }));

/** Set an equation smaller where its numbers are too long for the line. */
function squeeze(line) {
  const [formula, tag] = line.children;
  const room = line.clientWidth - tag.offsetWidth - 8;
  const width = formula.getBoundingClientRect().width;
  if (width > room && room > 0) formula.style.fontSize = `${(100 * room) / width}%`;
}

/** A sentence with a capital letter, unless it begins with i or j. */
const sentence = (text) => (/^\w\b/.test(text) ? text : text[0].toUpperCase() + text.slice(1)) + ".";

/** How far a solver of the race is, and after how many updates its gap was small. */
function racer(lane) {
  if (!lane.ran) return [h("b", {}, lane.solver), h("span", {}, "cannot run here")];
  const there = lane.history.find((record) => record[4] !== null && record[4] <= 1e-3);
  const shown = there && there[0] <= lane.updates;
  const words = shown ? `gap < 0.001 after ${there[0]}` : `gap ${sci(lane.certificate.relative_gap)}`;
  return [h("span", {}, h("b", {}, lane.solver), ` ${shown ? "✓ " : ""}${words}`), h("span", { class: "mm-soft" }, `${lane.updates} updates, ${fmt(lane.seconds * 1000)} ms`)];
}

/** The legend's marks, as on the canvas. */
function mark(kind) {
  const picture = s("svg", { viewBox: "0 0 22 22", class: "mm-mark", "aria-hidden": "true" });
  const ring = (r, width) => s("circle", { cx: 11, cy: 11, r, class: "ring", "stroke-width": width });
  if (kind === "minus") picture.append(s("path", { d: "M11 5 17 11 11 17 5 11z", class: "minus" }));
  else picture.append(s("circle", { cx: 11, cy: 11, r: 4.6, class: kind === "plus" ? "plus" : kind === "zero" ? "body faint" : "body" }));
  if (kind === "free") picture.append(ring(7.6, 2));
  if (kind === "bound") picture.append(ring(7.2, 1.3), ring(9.8, 1.3));
  if (kind === "wrong") picture.append(s("path", { d: "M7.6 7.6l6.8 6.8M14.4 7.6l-6.8 6.8", class: "cross" }));
  return picture;
}

function save(name, blob) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 2000);
}

function remember(name, value) {
  try {
    localStorage.setItem(`maxmargin-${name}`, value);
  } catch {
    // A page without storage forgets the theme, nothing else.
  }
}

function recall(name) {
  try {
    return localStorage.getItem(`maxmargin-${name}`);
  } catch {
    return null;
  }
}

// ---- where it runs ------------------------------------------------------------------------------

/** The entry of the notebook widget (anywidget). */
export default {
  render({ model, el }) {
    const root = h("div", { class: "mm-lab mm-widget" });
    el.append(h("div", { class: "mm-frame" }, root));
    const lab = mount(root, comm(model));
    return () => lab.destroy();
  },
};

const place = document.querySelector("[data-maxmargin-lab]");
if (place) mount(place, websocket(`ws://${location.host}/ws`), { page: true });
