// One card for each policy: what started against the limit, what waits and for how long, and what is left.

import { bars, spark } from "./charts.js";
import { clock, count, duration, make, put, rate, show } from "./format.js";
import { Track, seconds } from "./memory.js";

// leftOf returns the title of what is left, and how it is written.
function leftOf(p) {
  if (p.kind === "in flight") return ["In flight", String(p.limit - p.remaining), `of ${count(p.limit)}`];
  if (p.kind === "window") return ["Remaining", count(p.remaining), `of ${count(p.limit)}`];
  return ["Free at once", count(p.remaining), `of ${count(p.limit)}`];
}

// tile makes a figure with its line.
function tile(title) {
  const value = make("dd");
  const label = make("dt", { text: title });
  const box = make("div", { class: "chart spark", role: "img" });
  return { node: make("div", { class: "tile" }, label, value, box), label, value, box };
}

// write sets a tile's figure, with a smaller remark behind it.
function write(t, figure, remark) {
  const text = remark ? `${figure} ` : figure;
  if (t.value.textContent === text + (remark ?? "")) return;
  t.value.replaceChildren(text, ...(remark ? [make("small", { text: remark })] : []));
}

// A Card shows one policy.
export class Card {
  constructor(p, pauses, buttons) {
    this.pauses = pauses;
    this.waiting = new Track();
    this.left = new Track();
    this.title = make("h3", { text: p.name });
    this.binds = make("span", { class: "badge binds", text: "binds", hidden: "" });
    this.paused = make("span", { class: "badge paused", hidden: "" });
    this.text = make("span", { class: "text" });
    this.figure = make("b");
    this.against = make("span", { text: "" });
    this.limitKey = make("span", { class: "k-limit", text: "limit" });
    this.pauseKey = make("span", { class: "k-pause", text: "pause" });
    this.main = make("div", { class: "chart main", role: "img" });
    this.tiles = { waited: tile("Mean wait"), waiting: tile("Waiting"), left: tile("") };
    this.node = make("article", { class: "policy", "data-policy": p.name },
      make("header", {}, this.title, this.binds, this.paused, this.text, buttons),
      make("div", { class: "caption" }, make("span", {}, this.figure, this.against),
        make("span", { class: "keys", "aria-hidden": "true" }, this.limitKey, this.pauseKey)),
      this.main,
      make("dl", { class: "tiles" }, this.tiles.waited.node, this.tiles.waiting.node, this.tiles.left.node));
    this.state = { at: 0, limit: 0, bands: pauses.bands };
    this.leftState = { at: 0, most: 0, bands: pauses.bands };
    this.charts = {
      main: bars(this.main, this.state),
      waited: spark(this.tiles.waited.box, this.state, "waits", true),
      waiting: spark(this.tiles.waiting.box, this.state, "queue", true),
      left: spark(this.tiles.left.box, this.leftState, "left", true),
    };
    this.spoken = 0;
  }

  // update shows what a message says.
  update(view, p) {
    const at = Date.parse(view.at) / 1000;
    this.state.at = this.leftState.at = at;
    this.state.limit = p.scopes.length === 0 && (p.kind === "rate" || p.periodSeconds > 0 && p.periodSeconds <= 60) ? p.capacity : 0;
    this.leftState.most = p.limit;
    this.waiting.add(at, p.waiting);
    if (p.shown) this.left.add(at, p.kind === "in flight" ? p.limit - p.remaining : p.remaining);

    const times = seconds(view, p.cost);
    const means = p.waits.map((n, i) => (n > 0 ? p.waitedSeconds[i] / n : 0));
    this.charts.main.set([times, p.cost]);
    this.charts.waited.set([times, means]);
    this.charts.waiting.set(this.waiting.data());
    if (p.shown) this.charts.left.set(this.left.data());

    show(this.tiles.left.node, p.shown);
    const paused = Math.max(view.pausedSeconds, p.busiest ? 0 : p.pausedSeconds);
    show(this.binds, view.binding === p.name);
    this.node.classList.toggle("bound", view.binding === p.name);
    show(this.paused, paused > 0);
    if (paused > 0) put(this.paused, `paused for ${duration(paused)}`);
    const margin = p.marginSeconds > 0 ? `; margin ${duration(p.marginSeconds)}` : "";
    const gone = p.goneSeconds > 0 ? `; at this pace, gone at ${clock(p.goneSeconds)}` : "";
    put(this.text, (p.text.startsWith(`${p.name}: `) ? p.text.slice(p.name.length + 2) : p.text) + gone + margin);
    put(this.figure, `${rate(p.rate)}/s`);
    put(this.against, this.compared(p));
    show(this.limitKey, this.state.limit > 0);
    show(this.pauseKey, this.pauses.bands.length > 0);

    const recent = p.waits.slice(-10).reduce((a, b) => a + b, 0);
    const mean = recent > 0 ? p.waitedSeconds.slice(-10).reduce((a, b) => a + b, 0) / recent : 0;
    write(this.tiles.waited, duration(mean));
    const more = [p.queued > 0 && `${count(p.queued)} queued`, p.backlog > 0 && `${count(p.backlog)} ahead`].filter((one) => one);
    write(this.tiles.waiting, count(p.waiting), more.join(", ") || null);
    const [title, figure, remark] = leftOf(p);
    put(this.tiles.left.label, p.busiest ? `${title}, ${p.scope}` : title);
    if (p.shown) write(this.tiles.left, figure, remark);
    this.speak(p, at, mean);
  }

  // compared compares what started with the limit.
  compared(p) {
    if (p.scopes.length > 0) return `, all together; ${rate(p.capacity)}/s for each ${p.scopes.join(" and ")}`;
    if (this.state.limit > 0) return ` of ${rate(p.capacity)}/s`;
    if (p.kind === "window" && p.rate > 0 && p.remaining > 0) return `, at which the rest lasts ${duration(p.remaining / p.rate)}`;
    return "";
  }

  // speak describes the charts in words, now and then.
  speak(p, at, mean) {
    if (Math.abs(at - this.spoken) < 5) return;
    this.spoken = at;
    const most = Math.max(0, ...p.cost);
    const limit = this.state.limit > 0 ? ` The limit is ${rate(this.state.limit)} a second in the long run.` : "";
    const bands = this.pauses.bands.length > 0 ? " There was a pause." : "";
    this.main.setAttribute("aria-label", `${p.name}: cost of the calls that started in each of the last 60 seconds. ` +
      `${rate(p.rate)} a second now, ${count(most)} at most.${limit}${bands}`);
    this.tiles.waited.box.setAttribute("aria-label", `Mean wait over the last minute, ${duration(mean)} now`);
    this.tiles.waiting.box.setAttribute("aria-label", `Calls that waited over the last minute, ${count(p.waiting)} now`);
    const [title, figure, remark] = leftOf(p);
    this.tiles.left.box.setAttribute("aria-label", `${title} over the last minute, ${figure} ${remark} now`);
  }

  end() {
    for (const c of Object.values(this.charts)) c.end();
    this.node.remove();
  }
}
