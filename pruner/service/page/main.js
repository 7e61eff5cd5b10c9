// What the controls of the page do, and what is shown.

import { prune, setKey } from "./api.js";
import { CHUNKS, QUERY } from "./example.js";
import { asked, count, read } from "./read.js";
import { Setting } from "./setting.js";
import { Table } from "./table.js";

const get = (id) => document.getElementById(id);
const table = new Table(get("decisions"));
const settings = { A: new Setting("A", changed), B: new Setting("B", changed) };
let list = null; // What is shown: {chunks, grading, asked, whole, tokens, record}.
let records = [];

get("settings").append(settings.A.element);
settings.A.title("Setting");
settings.B.title("Setting B");

get("list").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(submit);
});
get("chunks").addEventListener("input", () => tellForm());
get("key").addEventListener("input", () => setKey(get("key").value));
get("example").addEventListener("click", () => {
  fillForm(QUERY, CHUNKS.join("\n\n"));
  get("grade").focus();
});
get("file").addEventListener("change", (event) => attempt(() => openFile(event.target)));
get("record").addEventListener("change", (event) => attempt(() => openRecord(records[event.target.value])));
get("compare").addEventListener("change", () => attempt(compare));
get("save").addEventListener("click", save);
tellForm();

async function attempt(work) {
  tell("fault", "");
  try {
    await work();
  } catch (error) {
    if (error.code === "unauthorized") askKey();
    tell("fault", error.message);
  }
}

function tell(id, text) {
  get(id).textContent = text;
  if (id === "fault") get(id).hidden = !text;
}

function askKey() {
  get("key-field").hidden = false;
  get("key").focus();
}

function fillForm(query, chunks) {
  get("query").value = query;
  get("chunks").value = chunks;
  tellForm();
}

// Says how the pasted text is read, before anything is done with it.
function tellForm() {
  let given = { chunks: [], form: "" };
  try {
    given = read(get("chunks").value);
    tell("found", given.records || given.chunks.length ? `Read as ${given.form}.` : "");
  } catch (error) {
    tell("found", error.message);
  }
  get("grade").textContent = given.records ? "Show" : "Grade";
}

async function submit() {
  const given = read(get("chunks").value);
  if (given.records) return openRecords(given.records);
  offerRecords([]);
  if (given.query) get("query").value = given.query;
  const query = get("query").value;
  if (!query.trim()) return refuse("query", "Ask a question first.");
  if (!given.chunks.length) return refuse("chunks", "Give some chunks first.");
  return grade(query, given.chunks, { ...given.asked, ...(given.dials && { dials: given.dials }) });
}

function refuse(id, message) {
  get(id).focus();
  throw new Error(message);
}

async function grade(query, chunks, rest) {
  get("grade").disabled = true;
  tell("said", `Grading ${count(chunks.length, "chunk")} …`);
  try {
    await show(query, chunks, rest, await prune({ query, chunks, ...rest }));
  } catch (error) {
    tell("said", "");
    throw error;
  } finally {
    get("grade").disabled = false;
  }
}

function show(query, chunks, rest, answer) {
  const { decisions, status, reason, trace, usage, timings, arm, tokens } = answer;
  const column = (name) => decisions.map((decision) => decision[name]);
  const record = { status, reason, left_out: trace.left_out, arm, usage, latency: timings.grading, model: trace.model, prompt: trace.prompt };
  const graded = { ...record, query, chunks, grades: column("grade"), expected: column("expected"), by: column("by") };
  const kept = decisions.flatMap((decision, rank) => (decision.kept ? [rank] : []));
  return openRecord({ ...graded, ids: column("id"), n: chunks.length, kept, tokens: tokens.chunks, dials: {}, ...rest });
}

async function openFile(input) {
  const file = input.files[0];
  if (!file) return;
  const text = await file.text();
  input.value = "";
  const given = read(text);
  if (given.records) return openRecords(given.records);
  offerRecords([]);
  fillForm(given.query ?? get("query").value, text);
}

async function openRecords(given) {
  offerRecords(given);
  return openRecord(given[0]);
}

function offerRecords(given) {
  records = given;
  get("record-field").hidden = given.length < 2;
  get("record").replaceChildren(
    ...given.map((record, i) => {
      const name = record.query ?? record.request_id ?? record.time ?? "";
      return new Option(`${i + 1}: ${name} (${count(record.n, "chunk")}, ${record.status ?? "no status"})`, i);
    }),
  );
}

async function openRecord(record) {
  const whole = record.chunks.every((chunk) => chunk.text !== null);
  const { grades, expected, status, reason, left_out } = record;
  // Ids may be there twice in a log, and are none of the selection's business.
  const chunks = record.chunks.map(({ id, ...chunk }) => ({ ...chunk, text: chunk.text ?? "" }));
  const { history, ...whom } = asked(record);
  const grading = { grades, expected: expected ?? null, status, reason, left_out: left_out ?? [] };
  list = { chunks, grading, asked: { query: record.query ?? "", ...whom }, whole, tokens: record.tokens, record };
  table.fill(record.chunks, grades, expected);
  if (record.query) get("query").value = record.query;
  get("results").hidden = false;
  tell("about", describe(record, whole));
  get("settings").hidden = record.gradeless === true;
  get("compare").checked = false;
  get("compare").disabled = record.gradeless === true;
  await compare();
  if (record.gradeless) {
    table.show("A", record.by.map((by) => ({ by, kept: by === "kept" })), null);
    tell("said", `${record.kept.length} of ${count(record.n, "chunk")} were kept.`);
  } else await settings.A.open(list, record.dials);
  get("results").focus();
}

function describe(record, whole) {
  const { status, reason, model, usage, latency, arm } = record;
  const parts = [status && `Status ${status}${reason ? ` (${reason.replaceAll("_", " ")})` : ""}`, model];
  if (status === "fallback") parts.splice(1, 0, "nothing was graded, so the reranker’s order decides");
  if (arm === "baseline") parts.push("the baseline: this list was not to be pruned");
  if (usage?.calls) parts.push(`${count(usage.input_tokens, "token")} in, ${usage.output_tokens} out`);
  if (usage?.cost != null) parts.push(`$${usage.cost.toFixed(5)}`);
  if (latency && usage?.calls) parts.push(`${latency.toFixed(2)} s`);
  if (record.gradeless) parts.push("a trace holds no grades, so its dials cannot be moved");
  else if (!whole) parts.push("the record lacks texts, so the budget cannot be moved");
  return `${parts.filter(Boolean).join(" · ")}.`;
}

async function compare() {
  const on = get("compare").checked;
  settings.A.title(on ? "Setting A" : "Setting");
  get("settings").classList.toggle("two", on);
  if (!on) {
    settings.B.element.remove();
    table.compare(false);
    return;
  }
  get("settings").append(settings.B.element);
  await settings.B.open(list, settings.A.dials);
}

function changed(setting) {
  if (setting.fault) {
    if (setting.fault.code === "unauthorized") askKey();
    return;
  }
  const on = get("compare").checked;
  table.show(setting.letter, setting.answer.decisions, setting.tokens);
  const differing = table.compare(on);
  const named = on ? `Setting ${setting.letter}: ` : "";
  const compared = on ? ` The settings differ in ${count(differing, "chunk")}.` : "";
  tell("said", `${named}${setting.say()} kept.${compared}`);
}

// Saves what is shown as a line of the decision log, with its texts where they are all known; this page opens it again.
function save() {
  const { answer, tokens } = settings.A;
  const { decisions, trace } = answer ?? { decisions: [], trace: {} };
  const { chunks, ...record } = list.record;
  const now = answer && { by: decisions.map((d) => d.by), kept: answer.kept, dials: trace.dials, tokens };
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([`${JSON.stringify({ ...record, ...now, ...(list.whole && { chunks }) })}\n`], { type: "application/json" }));
  link.download = "pruner-record.json";
  link.click();
  URL.revokeObjectURL(link.href);
}
