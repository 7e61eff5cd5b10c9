// What was pasted or opened: a list to grade, or records of what came of one.

const KNOWN = [
  "text", "id", "score", "title", "token_count", "parent_id", "source_id", "revision_id", "status", "authority",
  "date", "query_ids", "page", "start_char", "end_char", "heading_path", "acl", "embedding", "metadata",
];
const SELECTION = [
  "threshold", "keep_top_k", "min_score", "max_chunks", "token_cap", "fallback_top_n", "scoring", "revision_policy",
  "dedup", "dedup_overlap", "dedup_jaccard", "dedup_cosine", "dedup_across_sources", "mmr_lambda", "max_per_parent",
  "max_per_source", "source_policy", "expand", "expand_sentences", "token_budget", "budget_pick", "extract",
  "evidence_order",
];
// These go by what the texts say, and mean nothing without them.
const OF_TEXTS = ["dedup", "mmr_lambda", "expand", "extract", "token_budget"];
// What a request says beside its list.
const ASKED = ["history", "principals", "required_query_ids", "parents"];

// Returns {chunks, query?, asked, form} for a list, or {records, form}; `form` says in words how the text was read.
export function read(text) {
  const { values, broken } = readJson(text.trim());
  if (values.length && values.every(isRecord)) {
    const torn = broken ? `, beside ${count(broken, "broken line")}` : "";
    return { records: values.map(toRecord), form: count(values.length, "record") + torn };
  }
  if (broken) return readPlain(text);
  if (values.length === 1 && Array.isArray(values[0].results)) return ofReranker(values[0]);
  if (values.length === 1 && Array.isArray(values[0].chunks)) return ofList(values[0].chunks, values[0]);
  return ofList(values);
}

export function count(n, what) {
  return `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
}

// The values of a JSON list, of one JSON value, or of JSON lines; and how many lines are none, as a killed writer leaves.
function readJson(text) {
  if (!/^[[{"]/.test(text)) return { values: [], broken: 1 };
  const whole = parsed(text);
  if (whole !== undefined) return { values: Array.isArray(whole) ? whole : [whole], broken: 0 };
  const lines = text.split("\n").filter((line) => line.trim()).map(parsed);
  const values = lines.filter((value) => value !== undefined);
  return { values, broken: lines.length - values.length };
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function readPlain(text) {
  const paragraphs = text.split(/\n[ \t]*\n/).map((part) => part.trim()).filter(Boolean);
  if (paragraphs.length > 1) return { chunks: paragraphs.map(toChunk), form: count(paragraphs.length, "paragraph") };
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  return { chunks: lines.map(toChunk), form: count(lines.length, "line") };
}

// Of a request or a record, whom and what its list is for.
export function asked(given) {
  return Object.fromEntries(ASKED.filter((name) => given[name] != null).map((name) => [name, given[name]]));
}

function ofList(given, request = {}) {
  const { query, dials } = request;
  return { chunks: given.map(toChunk), query, dials, asked: asked(request), form: `${count(given.length, "chunk")} of JSON` };
}

function ofReranker({ results, documents, query, dials, ...request }) {
  const texts = results.map((result) => documents?.[result.index] ?? result.document);
  const chunks = texts.map((text, rank) => ({ ...toChunk(text, rank), score: results[rank].relevance_score }));
  return { chunks, query, dials, asked: asked(request), form: `${count(chunks.length, "result")} of a reranker` };
}

function toChunk(given, rank) {
  const chunk = typeof given === "string" ? { text: given } : given;
  if (typeof chunk?.text !== "string") throw new Error(`Entry ${rank + 1} holds no text: give strings, or objects with a "text".`);
  return Object.fromEntries(KNOWN.filter((name) => chunk[name] != null).map((name) => [name, chunk[name]]));
}

const isRecord = (value) => ["grades", "decisions", "stages"].some((name) => Array.isArray(value?.[name]));

// A line of the decision log, an answer of the service or the command line, or a bare trace, in the form of the first.
function toRecord(value) {
  if (Array.isArray(value.decisions)) return ofAnswer(value);
  if (Array.isArray(value.stages)) return ofTrace(value);
  return withTexts(value, value.chunks ?? []);
}

function ofAnswer({ decisions, trace, tokens, texts, chunks, ...rest }) {
  const column = (name) => decisions.map((decision) => decision[name] ?? null);
  const kept = decisions.flatMap((decision, rank) => (decision.kept ? [rank] : []));
  const record = { ...rest, ids: column("id"), grades: column("grade"), expected: column("expected"), by: column("by"), kept };
  return withTexts({ ...trace, ...record, tokens: tokens?.chunks }, texts ?? chunks ?? []);
}

function ofTrace(trace) {
  const dropped = Object.assign({}, ...trace.stages.map((stage) => stage.dropped));
  const first = trace.stages[0] ?? { kept: [], dropped: {} };
  const n = first.kept.length + Object.keys(first.dropped).length;
  const by = Array.from({ length: n }, (_, rank) => dropped[rank] ?? "kept");
  const kept = by.flatMap((reason, rank) => (reason === "kept" ? [rank] : []));
  return withTexts({ ...trace, n, by, kept, gradeless: true }, []);
}

// A record holds the texts of all chunks, of the kept ones, or none.
function withTexts(record, given) {
  const n = record.n ?? record.grades.length;
  const kept = record.kept ?? [];
  const places = given.length === n ? [...given.keys()] : given.length === kept.length ? kept : [];
  const chunks = Array.from({ length: n }, (_, rank) => ({ text: null, id: record.ids?.[rank] ?? undefined }));
  places.forEach((place, i) => Object.assign(chunks[place], toChunk(given[i], i)));
  const whole = chunks.every((chunk) => chunk.text !== null);
  const named = SELECTION.filter((name) => record.dials?.[name] != null && (whole || !OF_TEXTS.includes(name)));
  const dials = Object.fromEntries(named.map((name) => [name, record.dials[name]]));
  return { ...record, n, kept, chunks, dials, grades: record.grades ?? Array(n).fill(null) };
}
