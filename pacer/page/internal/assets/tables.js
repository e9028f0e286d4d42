// The tables: the keys that spend or wait most, and the processes.

import { count, duration, ending, make, plural, put, show } from "./format.js";

// A Table keeps its rows, so that neither the focus nor what was selected is lost when figures change.
class Table {
  constructor(box, caption, columns, empty) {
    this.columns = columns;
    this.body = make("tbody");
    this.rows = new Map();
    const head = columns.map((c) => (c.title === "" ? make("td", {}, make("span", { class: "sr", text: "Actions" })) :
      make("th", { scope: "col", class: c.number ? "number" : null, text: c.title })));
    this.table = make("table", {}, make("caption", { class: "sr", text: caption }), make("thead", {}, make("tr", {}, ...head)), this.body);
    this.empty = make("p", { class: "empty", text: empty });
    box.replaceChildren(make("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" }, this.table, this.empty));
  }

  // update shows the items, each of which has a key.
  update(items, keyOf) {
    this.table.hidden = items.length === 0;
    this.empty.hidden = items.length > 0;
    const gone = new Set(this.rows.keys());
    items.forEach((item, i) => {
      const key = keyOf(item);
      gone.delete(key);
      let row = this.rows.get(key);
      if (!row) {
        row = this.row(item);
        this.rows.set(key, row);
      }
      this.columns.forEach((c, j) => c.fill(row.cells[j], item));
      if (this.body.rows[i] !== row) this.body.insertBefore(row, this.body.rows[i] ?? null);
    });
    for (const key of gone) {
      this.rows.get(key).remove();
      this.rows.delete(key);
    }
  }

  row(item) {
    return make("tr", {}, ...this.columns.map((c, j) => {
      const kind = [c.number ? "number" : "", c.wide ? "wide" : ""].join(" ").trim() || null;
      const cell = make(j === 0 ? "th" : "td", { class: kind, scope: j === 0 ? "row" : null });
      c.init?.(cell, item);
      return cell;
    }));
  }
}

// text makes a column of text.
const text = (title, of, more = {}) => ({ title, fill: (cell, item) => put(cell, of(item)), ...more });
// number makes a column of figures.
const number = (title, of) => text(title, of, { number: true });

// Busiest shows keys. buttons makes those of a row; null if the page only shows.
export class Busiest {
  constructor(buttons) {
    const columns = [
      text("Key", (b) => b.scope, { wide: true }),
      text("Policy", (b) => b.policy),
      {
        title: "Last minute", number: true,
        init: (cell) => cell.append(make("span"), make("span", { class: "meter", "aria-hidden": "true" }, make("i"))),
        fill: (cell, b) => {
          put(cell.firstChild, count(b.cost));
          cell.lastChild.firstChild.style.width = `${this.most > 0 ? (100 * b.cost) / this.most : 0}%`;
        },
      },
      number("Waiting", (b) => count(b.waiting)),
      number("Ahead", (b) => (b.backlog > 0 ? count(b.backlog) : "–")),
      number("Next", (b) => (b.nextSeconds > 0 ? `in ${duration(b.nextSeconds)}` : "now")),
      number("Paused", (b) => (b.pausedSeconds > 0 ? duration(b.pausedSeconds) : "–")),
    ];
    if (buttons) columns.push({ title: "", init: (cell, b) => cell.append(...buttons(b)), fill: () => {} });
    this.most = 0;
    this.table = new Table(document.getElementById("busiest"), "Busiest keys", columns, "No key has spent anything in the last minute, or no policy has scopes.");
  }

  update(view) {
    this.most = Math.max(0, ...view.busiest.map((b) => b.cost));
    this.table.update(view.busiest, (b) => JSON.stringify([b.policy, b.scope]));
  }
}

// Callers shows what each part of a program spent.
export class Callers {
  constructor() {
    this.section = document.getElementById("callers-section");
    this.table = new Table(document.getElementById("callers"), "What callers spent", [
      text("Caller", (c) => c.name, { wide: true }),
      text("Policy", (c) => c.policy),
      number("Last minute", (c) => count(c.cost)),
    ], "");
  }

  update(view) {
    show(this.section, view.callers.length > 0);
    this.table.update(view.callers, (c) => JSON.stringify([c.policy, c.name]));
  }
}

// Said shows what the upstream said of its limits: what is left of them, and what was learned of those.
export class Said {
  constructor() {
    this.section = document.getElementById("left-section");
    this.learnedSection = document.getElementById("learned-section");
    this.learned = new Table(document.getElementById("learned"), "What replies stated", [
      text("Limit", (l) => l.text || l.policy || l.name || "upstream", { wide: true }),
      text("Longest reset", (l) => (l.resetSeconds > 0 ? duration(l.resetSeconds) : "–")),
      number("Replies", (l) => count(l.readings)),
      text("Since", (l) => new Date(l.since).toLocaleString()),
      text("From", (l) => l.source || "–"),
    ], "");
    this.table = new Table(document.getElementById("left"), "What the upstream said is left", [
      text("Limit", (a) => [a.policy ?? "upstream", a.limit, a.scope].filter((one) => one).join(" · "), { wide: true }),
      number("Left", (a) => count(a.left)),
      number("Free", (a) => count(a.free)),
      text("Holds", (a) => ending(a.seconds, a.by), { wide: true }),
    ], "");
  }

  update(view) {
    show(this.section, view.allowances.length > 0);
    this.table.update(view.allowances, (a) => JSON.stringify([a.policy, a.limit, a.scope]));
    show(this.learnedSection, view.learned.length > 0);
    this.learned.update(view.learned, (l) => JSON.stringify([l.policy, l.name]));
  }
}

// Processes shows who paces the upstream.
export class Processes {
  constructor() {
    this.title = document.getElementById("processes-title");
    this.table = new Table(document.getElementById("processes"), "Processes", [
      text("Name", (p) => [p.name || p.id, ...this.from(p)].join(" · "), { wide: true }),
      number("Running for", (p) => duration(p.forSeconds)),
      number("Waiting", (p) => count(p.waiting)),
    ], "No process is known.");
  }

  // from says which policies a process has, if not all have the same, and who set them.
  from(p) {
    return [this.differ && p.version, p.source && `policies ${p.source}`].filter((one) => one);
  }

  update(view) {
    this.differ = view.versionCount > 1;
    const hidden = view.alive - view.processes.length;
    put(this.title, hidden > 0 ? `Processes (${plural(hidden, "more is", "more are")} not shown)` : "Processes");
    this.table.update(view.processes, (p) => p.id);
  }
}
