// One setting: its dials, what they come to, and how to take them along.

import { assemble } from "./api.js";
import { count } from "./read.js";
import { copy, written } from "./settings.js";
import { level } from "./table.js";

const STEPS = [1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000];

export class Setting {
  // changed(setting) is called whenever there is a new selection or fault.
  constructor(letter, changed) {
    this.letter = letter;
    this.changed = changed;
    this.element = document.getElementById("setting").content.firstElementChild.cloneNode(true);
    this.element.id = `setting-${letter}`;
    this.dials = {};
    this.#connect();
  }

  // list: {chunks, grading, asked, whole, tokens}; dials: those that differ from the service's own. Returns once it is shown.
  async open(list, dials) {
    this.list = list;
    this.dials = { ...dials };
    this.answer = null;
    this.#find('[data-dial="token_cap"] input').disabled = !list.whole;
    return this.#refresh();
  }

  title(text) {
    this.#find("legend").textContent = text;
  }

  // Tokens of each chunk: as counted now, or as recorded where the texts are not there to be counted.
  get tokens() {
    return this.list.whole ? this.answer.tokens.chunks : this.list.tokens;
  }

  get totals() {
    const { decisions } = this.answer;
    const kept = decisions.filter((decision) => decision.kept).length;
    const sum = (chosen) => this.tokens?.reduce((total, n, rank) => total + (chosen(rank) ? n : 0), 0);
    return { n: decisions.length, kept, before: sum(() => true), after: sum((rank) => decisions[rank].kept) };
  }

  say() {
    const { n, kept, before, after } = this.totals;
    return `${kept} of ${count(n, "chunk")}${before === undefined ? "" : `, ${after.toLocaleString("en")} of ${count(before, "token")}`}`;
  }

  #find(selector) {
    return this.element.querySelector(selector);
  }

  #connect() {
    for (const dial of this.element.querySelectorAll(".dial")) {
      const [label, , input] = dial.children;
      input.id = `${dial.dataset.dial}-${this.letter}`;
      label.htmlFor = input.id;
      input.addEventListener("input", () => this.#move(dial.dataset.dial, input));
    }
    const area = this.#find(".copy textarea");
    area.setAttribute("aria-label", `Settings as text, ${this.letter}`);
    this.#find("select").addEventListener("change", () => this.#write());
    this.#find('[data-part="reset"]').addEventListener("click", () => {
      this.#find("input").focus(); // The button goes.
      this.open(this.list, {});
    });
    const button = this.#find('[data-part="copy"]');
    button.addEventListener("click", async () => {
      button.textContent = await copy(area).then(() => "Copied", (error) => error.message);
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
  }

  #move(name, input) {
    const value = Number(input.value);
    if (name === "token_cap" && value >= Number(input.max)) delete this.dials.token_cap;
    else this.dials[name] = value;
    this.#label(name, input, name === "token_cap" && !("token_cap" in this.dials) ? null : value);
    this.#refresh();
  }

  // Asks for the newest position only: while an answer is awaited, further moves are remembered, not sent.
  async #refresh() {
    this.stale = true;
    this.running ??= this.#run().finally(() => (this.running = null));
    return this.running;
  }

  async #run() {
    while (this.stale) {
      this.stale = false;
      const { chunks, grading, asked } = this.list;
      try {
        this.answer = await assemble({ chunks, grading, ...asked, dials: this.dials });
        this.fault = null;
      } catch (error) {
        this.fault = error;
        this.answer = null;
      }
    }
    this.#show();
    this.changed(this);
  }

  #show() {
    const fault = this.#find(".fault");
    fault.hidden = !this.fault;
    fault.textContent = this.fault?.message ?? "";
    this.#find('[data-part="reset"]').hidden = !Object.keys(this.dials).length;
    if (!this.answer) return;
    const { n, kept, before, after } = this.totals;
    const [whole, left] = before ? [before, after] : [n, kept];
    const share = whole ? 1 - left / whole : 0;
    this.#find('[data-part="share"]').textContent = `−${Math.round(share * 100)} % ${before ? "tokens" : "chunks"}`;
    this.#find('[data-part="chunks"]').textContent = `${kept} of ${count(n, "chunk")}`;
    const known = before !== undefined;
    this.#find('[data-part="tokens"]').textContent = known ? ` and ${after.toLocaleString("en")} of ${count(before, "token")}` : "";
    this.#find(".bar span").style.setProperty("--share", `${100 - share * 100}%`);
    this.#place(n, before ?? 0);
    this.#write();
  }

  // Sets the dials to what is in force.
  #place(n, total) {
    const { threshold, keep_top_k: top, token_cap: cap, scoring } = this.answer.trace.dials;
    const step = STEPS.find((size) => size * 60 >= total) ?? STEPS.at(-1);
    const most = Math.max(Math.ceil((total + 1) / step) * step, (cap ?? 0) + step);
    const fine = scoring === "expected" || !Number.isInteger(threshold);
    this.#set("threshold", threshold, { step: fine ? 0.1 : 1 });
    this.#set("keep_top_k", top, { max: Math.max(n, top) });
    this.#set("token_cap", cap, { min: step, max: most, step }, most);
  }

  #set(name, value, limits, otherwise) {
    const input = this.#find(`[data-dial="${name}"] input`);
    Object.assign(input, limits);
    input.value = value ?? otherwise;
    this.#label(name, input, value);
  }

  #label(name, input, value) {
    const text = name === "threshold" ? level(value) : name === "keep_top_k" ? String(value) : this.#budget(value);
    input.previousElementSibling.textContent = text;
    input.setAttribute("aria-valuetext", text);
  }

  #budget(value) {
    if (!this.list.whole) return "needs the texts";
    return value == null ? "no limit" : count(value, "token");
  }

  #write() {
    if (!this.answer) return;
    const area = this.#find(".copy textarea");
    area.value = written(this.answer.trace.dials, this.#find("select").value);
    area.rows = area.value.split("\n").length + 1;
  }
}
