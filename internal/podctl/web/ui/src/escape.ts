// Text that others wrote, as the page shows it. All views show untrusted text through show; only the terminal doesn't.

// Characters that are invisible, change the direction of text, or control a terminal: the general categories Cc, Cf, Cs,
// Co, Cn, Zl and Zp, the spaces other than U+0020, and letters and marks that are drawn as nothing.
const hidden =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/gu;

// More than this many combining marks in a row would cover the lines above and below.
const stacked = /(\p{M}{3})(\p{M}+)/gu;

/** escapeCharacter returns the escaped form of one character: \n, \x1b, \u202e or \u{e0001}. */
function escapeCharacter(character: string): string {
  switch (character) {
    case "\n": return "\\n";
    case "\r": return "\\r";
    case "\t": return "\\t";
  }
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x80) return "\\x" + code.toString(16).padStart(2, "0");
  if (code < 0x10000) return "\\u" + code.toString(16).padStart(4, "0");
  return "\\u{" + code.toString(16) + "}";
}

/** longest is the length, in UTF-16 units, at which show cuts a text by default. */
export const longest = 4096;

/**
 * show returns text as one line: control, bidi and invisible characters escaped, and cut after limit characters. What it
 * returns is a text node's content, never HTML.
 */
export function show(text: string | undefined, limit = longest): string {
  if (!text) return "";
  let cut = text;
  if (cut.length > limit) cut = cut.slice(0, limit);
  cut = cut.replace(hidden, escapeCharacter);
  cut = cut.replace(stacked, (_, kept: string, rest: string) =>
    kept + Array.from(rest.slice(0, 64), escapeCharacter).join("") + (rest.length > 64 ? "…" : ""));
  return text.length > limit ? cut + "… (" + (text.length - limit) + " more characters)" : cut;
}

/** showLines returns text as lines, each through show. At most max lines; a last line reports how many are left out. */
export function showLines(text: string, max = 20000): string[] {
  const lines = text.split("\n", max + 1);
  if (lines.length > 1 && lines[lines.length - 1] === "") lines.pop();
  const shown = lines.slice(0, max).map((line) => show(line.endsWith("\r") ? line.slice(0, -1) : line));
  if (lines.length > max) shown.push("… (the text has more than " + max + " lines)");
  return shown;
}

/** showSpaced is show for a line whose tabs stand for indentation: they become spaces up to the next multiple of 8. */
export function showSpaced(line: string): string {
  if (!line.includes("\t")) return show(line);
  let out = "";
  for (const character of line.slice(0, longest)) {
    if (character !== "\t") out += character;
    else out += " ".repeat(8 - (out.length % 8));
  }
  return show(out);
}

/** hint returns text for a tooltip: each line through show. Undefined if there is none. */
export function hint(text: string | undefined): string | undefined {
  return text ? text.split("\n", 20).map((line) => show(line, 1000)).join("\n") : undefined;
}
