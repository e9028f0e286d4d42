// The page: opens the stream, and hands what it says to those who show it. It looks only while it is seen.

import { button } from "./act.js";
import { duration, make, put, show } from "./format.js";
import { Pauses } from "./memory.js";
import { Card } from "./policies.js";
import { Disagreement, Settings } from "./settings.js";
import { Busiest, Callers, Processes, Said } from "./tables.js";
import { Why } from "./why.js";

const element = (id) => document.getElementById(id);
const again = 2000; // ms until a stream that the server refused is asked for again

let stream = null;
let retry = 0;
let greeted = null; // the hello of the present stream's upstream
let lastAt = 0; // when figures came last, by this machine's clock
let cards = new Map();
let pauses = new Map();
let why, busiest, callers, said, processes, disagreement, settings;

// state shows how the stream is.
function state(name, text) {
  element("link").dataset.state = name;
  put(element("link"), text);
}

function open() {
  close();
  if (document.hidden) return;
  stream = new EventSource(`events${location.search}`);
  stream.addEventListener("hello", (e) => greet(JSON.parse(e.data)));
  stream.addEventListener("fleet", (e) => update(JSON.parse(e.data)));
  stream.addEventListener("trouble", (e) => trouble(JSON.parse(e.data).error));
  stream.onerror = () => {
    state("lost", "Connection lost, trying again");
    if (stream?.readyState === EventSource.CLOSED) { // the server refused: a browser does not try again by itself
      clearTimeout(retry);
      retry = setTimeout(open, again);
    }
  };
}

function close() {
  clearTimeout(retry);
  stream?.close();
  stream = null;
}

// trouble shows an error, and how old the figures are.
function trouble(text) {
  const old = lastAt > 0 ? ` The figures are ${duration((Date.now() - lastAt) / 1000)} old.` : "";
  put(element("trouble"), `${text}${old}`);
  show(element("trouble"), true);
  state("lost", "No figures");
}

// greet makes the page for an upstream.
function greet(hello) {
  if (JSON.stringify(hello) === JSON.stringify(greeted)) return; // the stream was opened again
  greeted = hello;
  for (const card of cards.values()) card.end();
  cards = new Map();
  pauses = new Map();
  document.title = `${hello.upstream} · Headway`;
  put(element("upstream"), hello.upstream);
  element("upstreams").replaceChildren(...hello.upstreams.map((name) => make("a", {
    href: `?upstream=${encodeURIComponent(name)}`, text: name, "aria-current": name === hello.upstream ? "page" : null,
  })));
  why = new Why();
  busiest = new Busiest(hello.intervene ? keyButtons : null);
  callers = new Callers();
  said = new Said();
  processes = new Processes();
  disagreement = new Disagreement();
  settings = new Settings();
  const { upstream, maxPause } = hello;
  show(element("actions"), hello.intervene);
  element("actions").replaceChildren(...(hello.intervene ? [
    button("Pause…", `Pause ${upstream}`, "pause", { upstream }, maxPause, false),
    button("Resume…", `Resume ${upstream}`, "resume", { upstream }, maxPause, false),
    button("Reset…", `Reset ${upstream}`, "reset", { upstream }, maxPause, false),
  ] : []));
}

// keyButtons makes the buttons of a busy key. One whose values cannot be had back has none.
function keyButtons(b) {
  if (!b.values) return [];
  const target = { upstream: greeted.upstream, policy: b.policy, values: b.values };
  return ["Pause", "Resume", "Reset"].flatMap((verb) => [
    button(`${verb}…`, `${verb} ${b.policy} for ${b.scope}`, verb.toLowerCase(), target, greeted.maxPause), " ",
  ]);
}

// pausesOf returns the pauses that concern a policy.
function pausesOf(name) {
  if (!pauses.has(name)) pauses.set(name, new Pauses());
  return pauses.get(name);
}

// update shows a fleet.
function update(view) {
  lastAt = Date.now();
  show(element("trouble"), false);
  state("live", "Live");
  const at = Date.parse(view.at) / 1000;
  const names = new Set(view.policies.map((p) => p.name));
  for (const [name, card] of cards) {
    if (names.has(name)) continue;
    card.end();
    cards.delete(name);
  }
  for (const p of view.policies) {
    const bands = pausesOf(p.name);
    bands.add(at, Math.max(view.pausedSeconds, p.busiest ? 0 : p.pausedSeconds));
    if (!cards.has(p.name)) {
      const buttons = greeted.intervene ? make("div", { class: "actions" }, button("Pause…", `Pause ${p.name}`, "pause",
        { upstream: greeted.upstream, policy: p.name, scopes: p.scopes }, greeted.maxPause)) : null;
      cards.set(p.name, new Card(p, bands, buttons));
      element("policies").append(cards.get(p.name).node);
    }
    cards.get(p.name).update(view, p);
  }
  show(element("none"), view.policies.length === 0 && view.unknown.length === 0);
  show(element("unknown"), view.unknown.length > 0);
  put(element("unknown"), `Policies that this version cannot read: ${view.unknown.join("; ")}`);
  why.update(view);
  said.update(view);
  busiest.update(view);
  callers.update(view);
  processes.update(view);
  disagreement.update(view);
  settings.update(view, at);
  const late = Math.max(0, at - Date.parse(view.counted) / 1000);
  const counted = late < 1 ? "up to now" : late < 60 ? `up to ${duration(Math.round(late))} ago` : "for no part of the last minute";
  put(element("foot"), `${view.shared ? "All processes that share the store" : "This process only"}. ` +
    `Times are the store's; started calls are counted ${counted}. ${greeted.intervene ? "" : "This page is read-only."}`);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    close();
    state("connecting", "Not looking");
  } else open();
});
addEventListener("pagehide", close);
addEventListener("pageshow", (e) => { if (e.persisted) open(); });
open();
