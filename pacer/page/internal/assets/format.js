// Numbers and durations as people read them, and the making of elements. Text is only ever set as text: the values of scopes
// come from outside.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

// count writes a whole number.
export function count(n) {
  return Math.abs(n) < 1e6 ? whole.format(n) : short.format(n);
}

// rate writes a number per second, with as many digits as mean something.
export function rate(n) {
  if (n === 0) return "0";
  if (n < 0.095) return n.toPrecision(1).includes("e") ? "<0.01" : String(Number(n.toPrecision(2)));
  return n < 100 ? String(Number(n.toFixed(1))) : count(n);
}

// duration writes seconds.
export function duration(s) {
  if (s <= 0) return "0 s";
  if (s < 1) return `${Math.max(1, Math.round(s * 1000))} ms`;
  if (s < 9.95) return `${s.toFixed(1)} s`;
  if (s < 99.5) return `${Math.round(s)} s`;
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const i = parts.findIndex(([unit]) => s >= unit);
  const [unit, name] = parts[i];
  const head = Math.floor(s / unit);
  const rest = i < 3 ? Math.floor((s - head * unit) / parts[i + 1][0]) : 0;
  return rest > 0 ? `${head} ${name} ${rest} ${parts[i + 1][1]}` : `${head} ${name}`;
}

// ending writes for how long something holds and until when, by the viewer's clock, and where the upstream stated that.
export function ending(s, by) {
  return `for ${duration(s)}, until ${clock(s)}${by ? ` (${by})` : ""}`;
}

// clock writes the time in so many seconds, by the viewer's clock.
export function clock(s) {
  const at = new Date(Date.now() + 1000 * s);
  return s < 43200 ? at.toLocaleTimeString() : at.toLocaleString();
}

// plural writes a number with its noun.
export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

// make makes an element. What is null among its properties and children is left out.
export function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (name === "text") node.textContent = value;
    else if (name === "onclick") node.addEventListener("click", value);
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// put sets an element's text, if it differs: screen readers hear of nothing else.
export function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// show shows or hides an element.
export function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}
