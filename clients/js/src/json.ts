import { ApiError } from "./errors.ts";

// Numbers that a double would round are marked in the text, which is parsed, and then replaced. No text of a row can
// contain the mark, because nobody knows it.
const MARK = `pilotis ${Math.random()} `;
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const MARKED = new RegExp(`"${MARK.replace(/\./g, "\\.")}(-?\\d+)"`, "g");

/** Parses JSON; with `big`, whole numbers beyond 2⁵³ become a `bigint`. Others fail where one is read. */
export function parse(text: string, big: boolean): any {
  if (!hasLongNumber(text)) return JSON.parse(text);
  let marked = false;
  const value = JSON.parse(
    text.replace(TOKENS, (token) => {
      if (token[0] === '"' || digits(token) === digits(String(Number(token)))) return token;
      marked = true;
      return JSON.stringify(MARK + token);
    }),
  );
  return marked ? replaced({ value }, big).value : value;
}

/** Whether there may be a number that a double would round: fifteen digits always fit. Looks at each sixteenth letter. */
function hasLongNumber(text: string): boolean {
  // Digits, points and slashes.
  const isPart = (at: number) => text.charCodeAt(at) > 45 && text.charCodeAt(at) < 58;
  for (let at = 15; at < text.length; at += 16) {
    let [from, to] = [at, at];
    while (isPart(from)) from--;
    while (isPart(to)) to++;
    if (to - from > 16) return true;
  }
  return false;
}

/** Writes JSON, a `bigint` as a number. */
export function stringify(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    // A `bigint`, or a circle, which is an error again.
    if (!(error instanceof TypeError)) throw error;
  }
  let marked = false;
  const text = JSON.stringify(value, (_, item) => {
    if (typeof item !== "bigint") return item;
    marked = true;
    return MARK + item;
  });
  return marked ? text.replace(MARKED, "$1") : text;
}

/** The digits that matter and the place of the point: equal for equal numbers. */
function digits(token: string): string {
  const [, sign, whole, part = "", power = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(token) ?? [];
  if (whole === undefined) return token;
  const all = (whole + part).replace(/^0+/, "");
  const short = all.replace(/0+$/, "");
  return short && `${sign}${short}e${Number(power) - part.length + all.length - short.length}`;
}

function replaced(holder: any, big: boolean): any {
  for (const name of Object.keys(holder)) {
    const value = holder[name];
    if (typeof value === "string" && value.startsWith(MARK)) {
      const token = value.slice(MARK.length);
      if (big && /^-?\d+$/.test(token)) holder[name] = BigInt(token);
      else Object.defineProperty(holder, name, { enumerable: true, configurable: true, get: () => unsafe(name, token) });
    } else if (value && typeof value === "object") {
      replaced(value, big);
    }
  }
  return holder;
}

function unsafe(name: string, token: string): never {
  throw new ApiError(0, "UNSAFE_NUMBER", `${name} is ${token}, which JavaScript would round without createClient({ bigint: true }).`);
}
