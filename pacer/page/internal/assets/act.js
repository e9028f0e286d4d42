// Interventions. Each asks first, says what it does, and shows the server's answer.

import { duration, make, put } from "./format.js";

const dialog = document.getElementById("ask");
const said = document.getElementById("said");
let fading = 0;

// tell shows for a moment what was done.
function tell(text) {
  put(said, text);
  said.hidden = false;
  clearTimeout(fading);
  fading = setTimeout(() => { said.hidden = true; }, 6000);
}

// whom names what is meant, in words.
function whom(upstream, values) {
  const all = Object.entries(values ?? {}).map(([name, value]) => `${name} ${value}`);
  return all.length > 0 ? all.join(", ") : upstream;
}

const texts = {
  pause: (target, who) => [`Pause ${target.policy ? `${target.policy} ` : ""}${target.values ? `for ${who}` : target.policy ? "" : who}`.trim(),
    "No call starts meanwhile. Waiting calls get new slots after the pause.", "Pause"],
  resume: (target, who) => [`Resume ${who}`,
    "Lifts the pause of the whole upstream, and those of every policy that binds these calls.", "Resume"],
  reset: (target, who) => [`Reset ${who}`,
    "Forgets what was charged to every policy that binds these calls, what was learned about them, and pauses. " +
    "The upstream does not forget: it may refuse the next calls.", "Reset"],
};

// ask opens the dialog for an action on a target: {upstream, policy, scopes, values}. Scopes whose values are not known it
// asks for.
export function ask(action, target, maxPause) {
  const [title, text, verb] = texts[action](target, whom(target.upstream, target.values));
  const open = target.values ? [] : target.scopes ?? [];
  const inputs = open.map((name) => make("input", { name, required: "", autocomplete: "off", spellcheck: "false" }));
  const length = action === "pause" ? make("input", { name: "for", value: "30s", required: "", autocomplete: "off" }) : null;
  const error = make("p", { class: "error", role: "alert" });
  const go = make("button", { type: "submit", class: action === "reset" ? "go danger" : "go", text: verb });
  const form = make("form", { method: "dialog" },
    make("h2", { id: "ask-title", text: title }), make("p", { text }),
    ...inputs.map((i) => make("label", {}, i.name, i)),
    length && make("label", {}, `For how long, such as 30s or 5m, at most ${duration(maxPause)}`, length),
    error, make("div", { class: "buttons" }, make("button", { type: "button", text: "Cancel", onclick: () => dialog.close() }), go));
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    const body = new URLSearchParams({ action, upstream: target.upstream });
    if (action === "pause") body.set("for", length.value.trim());
    if (action === "pause" && target.policy) body.set("policy", target.policy);
    for (const [name, value] of Object.entries(target.values ?? {})) body.append("scope", `${name}=${value}`);
    for (const i of inputs) body.append("scope", `${i.name}=${i.value}`);
    go.disabled = true;
    put(error, "");
    try {
      tell(await send(body));
      dialog.close();
    } catch (e) {
      put(error, e.message);
    }
    go.disabled = false;
  });
  dialog.replaceChildren(form);
  dialog.showModal();
  (inputs[0] ?? length ?? go).focus();
}

// send posts a form, and returns what was done.
async function send(body) {
  const answer = await fetch("act", { method: "POST", body });
  const text = await answer.text();
  let said = {};
  try {
    said = JSON.parse(text);
  } catch { /* something in front of the page answered */ }
  if (!answer.ok) throw new Error(said.error ?? `The server answered ${answer.status}.`);
  return said.done;
}

// button makes a button that asks for an action.
export function button(label, title, action, target, maxPause, small = true) {
  return make("button", {
    type: "button", class: small ? "small" : null, text: label, "aria-label": title, "aria-haspopup": "dialog",
    onclick: () => ask(action, target, maxPause),
  });
}
