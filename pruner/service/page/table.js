// The table of decisions. Rows are made once for a list; a setting only rewrites its own column.

const WORDS = ["", "UNRELATED", "TANGENTIAL", "SUPPORTING", "CONTRIBUTING", "ESSENTIAL"];
const WHY = {
  grade: "its grade reaches the threshold",
  keep_top_k: "among the reranker’s best k",
  ungraded: "no valid grade, so it stays",
  fallback: "by the reranker’s order",
  skipped: "nothing was graded",
  below_threshold: "its grade is below the threshold",
  min_score: "the reranker scored it too low",
  max_chunks: "no place among the most chunks allowed",
  token_cap: "no room in the budget",
  fallback_top_n: "beyond the reranker’s first few",
  kept: "as the trace has it",
};
const LONG = 220;

export const level = (value) => (Number.isInteger(value) ? `${value} ${WORDS[value]}` : String(value));

// Makes an element; text is only ever set as text.
export function make(tag, className, ...content) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...content);
  return element;
}

export class Table {
  constructor(table) {
    this.body = table.tBodies[0];
    this.heads = { A: table.querySelector("#column-A"), B: table.querySelector("#column-B") };
    this.rows = [];
  }

  // chunks: {text | null, id, title}; grades and expected: one for each.
  fill(chunks, grades, expected) {
    this.rows = chunks.map((chunk, rank) => row(chunk, rank, grades[rank], expected?.[rank]));
    this.body.replaceChildren(...this.rows.map((cells) => cells.row));
  }

  // decisions: {kept, by} for each chunk; tokens: of each, or null.
  show(letter, decisions, tokens) {
    let total = 0;
    decisions.forEach((decision, rank) => {
      const cells = this.rows[rank];
      if (tokens) {
        cells.tokens.textContent = tokens[rank].toLocaleString("en");
        if (decision.kept) total += tokens[rank];
      }
      fillVerdict(cells[letter], decision, tokens && decision.kept ? total : null);
      cells.row.dataset[`kept${letter}`] = decision.kept;
    });
  }

  // Returns how many chunks two settings decide differently about.
  compare(on) {
    this.heads.A.textContent = on ? "Setting A" : "Decision";
    this.heads.B.hidden = !on;
    return this.rows.filter((cells) => {
      cells.A.dataset.name = this.heads.A.textContent;
      cells.B.hidden = !on;
      const { keptA, keptB } = cells.row.dataset;
      const differs = on && keptB !== undefined && keptA !== keptB;
      cells.row.classList.toggle("differs", differs);
      cells.mark.textContent = differs ? "≠" : "";
      cells.mark.setAttribute("aria-label", differs ? "the settings differ" : "");
      cells.mark.hidden = !differs;
      return differs;
    }).length;
  }
}

function row(chunk, rank, grade, expected) {
  const mark = make("span", "mark");
  mark.setAttribute("role", "img");
  const cells = {
    rank: cell("th", "rank", "Rank", String(rank + 1), mark),
    chunk: cell("td", "chunk", "Chunk", ...described(chunk)),
    grade: cell("td", "grade", "Grade", ...graded(grade, expected)),
    tokens: cell("td", "number tokens", "Tokens", "–"),
    A: cell("td", "verdict a", "Decision"),
    B: cell("td", "verdict b", "Setting B"),
  };
  cells.rank.scope = "row";
  const element = make("tr", "", ...Object.values(cells));
  element.setAttribute("role", "row");
  return { ...cells, mark, row: element };
}

function cell(tag, className, name, ...content) {
  const element = make(tag, className, ...content);
  element.setAttribute("role", tag === "th" ? "rowheader" : "cell");
  element.dataset.name = name;
  return element;
}

function described({ title, id, text }) {
  const name = [title, id].filter((part) => part != null).join(" · ");
  const shown = text === null ? make("p", "quiet", "The record holds no text.") : body(text);
  return name ? [make("p", "name", name), shown] : [shown];
}

function body(text) {
  if (text.length <= LONG) return make("p", "text", text);
  const opening = make("summary", "text", `${[...text].slice(0, LONG - 20).join("")}…`);
  return make("details", "", opening, make("p", "text", text));
}

function graded(grade, expected) {
  if (!(grade >= 1 && grade <= 5)) return [make("span", "word quiet", "ungraded")];
  const steps = Array.from({ length: 5 }, (_, i) => make("i", i < grade ? "on" : ""));
  const bar = make("span", `steps g${Math.round(grade)}`, ...steps);
  bar.setAttribute("aria-hidden", "true");
  const word = make("span", "word", level(grade));
  return expected == null ? [bar, word] : [bar, word, make("span", "quiet expected", `expected ${expected.toFixed(2)}`)];
}

function fillVerdict(element, { kept, by }, total) {
  const verdict = make("span", kept ? "pill kept" : "pill dropped", kept ? "✓ kept" : "✕ dropped");
  const why = make("span", "why", WHY[by] ?? String(by).replaceAll("_", " "));
  const running = total === null ? [] : [make("span", "quiet running", `${total.toLocaleString("en")} so far`)];
  element.replaceChildren(verdict, ...running, why);
}
