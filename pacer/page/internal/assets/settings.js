// What operators have set for all processes, and who has other policies than the rest.

import { duration, make, plural, put, show } from "./format.js";

// A Notice is a sentence and a list, which are made anew only when they differ: screen readers hear of nothing else.
class Notice {
  constructor(id) {
    this.box = document.getElementById(id);
    this.text = make("p");
    this.list = make("ul");
    this.box.replaceChildren(this.text, this.list);
    this.shown = "";
  }

  put(text, items) {
    show(this.box, text !== "");
    put(this.text, text);
    const now = JSON.stringify(items);
    if (now === this.shown) return;
    this.shown = now;
    this.list.replaceChildren(...items.map((item) => make("li", { text: item })));
  }
}

// side says what some processes have of a policy.
function side(policy, s) {
  const more = s.processes - s.names.length;
  const who = s.names.join(", ") + (more > 0 ? ` and ${more} more` : "");
  if (s.text === "") return `${who} ${s.processes === 1 ? "has" : "have"} no policy ${policy}`;
  return `${who} ${s.processes === 1 ? "has" : "have"} ${s.text}`;
}

// A Disagreement shows which processes have which policies, while they differ.
export class Disagreement {
  constructor() {
    this.notice = new Notice("disagree");
  }

  update(view) {
    const differ = view.versionCount > 1;
    this.notice.put(differ ? `Processes disagree: ${view.versionCount} versions of the policies are in use. ` +
      "This is normal during a rolling deployment, and for a minute after a change." : "",
    differ ? view.disagreements.map((d) => d.sides.map((s) => side(d.policy, s)).join("; ") +
      (d.scopesDiffer ? ": these are separate accounts, because their scopes differ" : "")) : []);
  }
}

// maxTexts is how many lines of the policies are shown: those that are set may have a thousand overrides.
const maxTexts = 24;

// shorten returns some texts as one, without those that are too many.
function shorten(texts) {
  const rest = texts.length - maxTexts;
  return [...texts.slice(0, maxTexts), ...(rest > 0 ? [plural(rest, "more line")] : [])].join("; ");
}

// A Settings shows what is set, and for how much longer.
export class Settings {
  constructor() {
    this.notice = new Notice("set");
  }

  update(view, at) {
    const { policies, limits } = view.settings ?? { policies: null, limits: [] };
    const items = limits.map((l) => {
      const left = l.until === null ? "" : `, for ${duration(Date.parse(l.until) / 1000 - at)}`;
      return `${l.scope}: ${l.texts.join("; ")}${left}${l.error ? " (cannot be read here)" : ""}`;
    });
    const more = view.setLimits - limits.length;
    if (more > 0) items.push(plural(more, "more limit"));
    if (policies) items.unshift(`Policies: ${shorten(policies.texts) || "none"}${policies.error ? " (cannot be read here)" : ""}`);
    this.notice.put(items.length > 0 ? "Set by hand, for every process:" : "", items);
  }
}
