// The service, as far as the page asks it.

let key = "";

export function setKey(given) {
  key = given.trim();
}

export class Refused extends Error {
  constructor(fault) {
    super(fault.field ? `${fault.field}: ${fault.message}` : fault.message);
    this.code = fault.code;
  }
}

export const prune = (body) => post("v1/prune", body);
export const assemble = (body) => post("v1/assemble", body);

async function post(path, body) {
  const headers = { "content-type": "application/json", ...(key && { authorization: `Bearer ${key}` }) };
  const request = { method: "POST", headers, body: JSON.stringify({ ...body, tokens: true, trace: true }), credentials: "omit" };
  const response = await fetch(path, request).catch(() => {
    throw new Error("The service cannot be reached.");
  });
  const answer = await response.json().catch(() => {
    throw new Error(`The service answered ${response.status} without saying why.`);
  });
  if (!response.ok) throw new Refused(answer.error ?? { message: `The service answered ${response.status}.` });
  return answer;
}
