// The answer to "why is my call waiting", in words.

import { count, duration, ending, make, plural, put, rate } from "./format.js";

// reason returns the state, the answer, and what explains it.
function reason(view) {
  if (view.pausedSeconds > 0) {
    return ["paused", "The whole upstream is paused.", `No call starts ${ending(view.pausedSeconds, view.pausedBy)}.`];
  }
  const p = view.policies.find((one) => one.name === view.binding);
  if (!p) {
    const paused = view.policies.find((one) => one.pausedSeconds > 0 && !one.busiest);
    if (paused) return ["paused", `${paused.name} is paused.`, `No call that it binds starts ${ending(paused.pausedSeconds, paused.pausedBy)}.`];
    return ["idle", "No call waits.", "Every call starts at once."];
  }
  if (p.pausedSeconds > 0 && !p.busiest) {
    return ["paused", `Calls wait for ${p.name}, which is paused.`, `No call that it binds starts ${ending(p.pausedSeconds, p.pausedBy)}.`];
  }
  return ["waits", `Calls wait for ${p.name}.`, explain(p)];
}

// explain says why a policy makes calls wait.
function explain(p) {
  if (p.scopes.length > 0 && (!p.shown || p.busiest)) {
    return `Each ${p.scopes.join(" and ")} has its own state: the busiest are below.`;
  }
  if (p.kind === "in flight") {
    return p.remaining > 0 ? `${count(p.remaining)} of its ${count(p.limit)} permits are free.` : `All of its ${count(p.limit)} permits are taken.`;
  }
  const queued = p.queued > 0 ? ` ${plural(p.queued, "call")} ${p.queued === 1 ? "is" : "are"} queued.` : "";
  if (p.kind === "window") {
    return p.remaining > 0 ? `${count(p.remaining)} of its ${count(p.limit)} are left.${queued}` :
      `Its ${count(p.limit)} are spent: the next call starts in ${duration(p.nextSeconds)}.${queued}`;
  }
  return `It admits ${rate(p.rate)} a second, of the ${rate(p.capacity)} that it allows.${queued}`;
}

// A Why shows it.
export class Why {
  constructor() {
    this.box = document.getElementById("why");
    this.binding = document.getElementById("binding");
    this.because = document.getElementById("because");
    this.totals = {};
    const list = document.getElementById("totals");
    list.replaceChildren();
    for (const name of ["Waiting", "Mean wait", "Processes"]) {
      this.totals[name] = make("dd", { text: "–" });
      list.append(make("div", {}, make("dt", { text: name }), this.totals[name]));
    }
  }

  update(view) {
    const [state, answer, because] = reason(view);
    this.box.dataset.state = state;
    put(this.binding, answer);
    put(this.because, because);
    put(this.totals.Waiting, count(view.waiting));
    put(this.totals["Mean wait"], duration(meanWait(view)));
    put(this.totals.Processes, count(view.alive));
  }
}

// meanWait returns how long the calls of the last ten seconds that had to wait did so.
function meanWait(view) {
  let waits = 0;
  let waited = 0;
  for (const p of view.policies) {
    waits += p.waits.slice(-10).reduce((a, b) => a + b, 0);
    waited += p.waitedSeconds.slice(-10).reduce((a, b) => a + b, 0);
  }
  return waits > 0 ? waited / waits : 0;
}
