// The dials in force, in the forms an operator keeps them in.

const FORMS = {
  env: (entries) => entries.map(([name, value]) => `PRUNER_${name.toUpperCase()}=${value}`).join("\n"),
  toml: (entries) => entries.map(([name, value]) => `${name} = ${JSON.stringify(value)}`).join("\n"),
  json: (entries) => JSON.stringify({ dials: Object.fromEntries(entries) }, null, 2),
};

export function written(dials, form) {
  return FORMS[form](Object.entries(dials).filter(([, value]) => value !== null));
}

export async function copy(area) {
  area.select();
  try {
    await navigator.clipboard.writeText(area.value);
  } catch {
    // Away from loopback, browsers keep the clipboard from pages that did not come over TLS.
    if (!document.execCommand("copy")) throw new Error("The browser does not let this page copy; the text is selected.");
  }
}
