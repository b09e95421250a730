// Reads a statement's parameters from its text, and the values that the user typed for them.

/** Returns the names of its parameters in order. Texts, quoted names and comments contain no parameters. */
export function parametersOf(sql) {
  const bare = sql.replace(/'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|--.*|\/\*[^]*?(?:\*\/|$)/g, ' ');
  return [...new Set([...bare.matchAll(/[:@$]([A-Za-z_]\w*)/g)].map((found) => found[1]))];
}

/** Converts a typed value as `annals query --param` does: `5` is a number, `'5'` the text 5, an empty value NULL. */
export function valueOf(typed) {
  const text = typed.trim();
  if (text === '') return null;
  if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)) {
    const number = Number(text);
    // An integer that JavaScript cannot represent exactly stays a text.
    return Number.isInteger(number) && !Number.isSafeInteger(number) ? text : number;
  }
  return /^'[^]*'$/.test(text) ? text.slice(1, -1).replaceAll("''", "'") : typed;
}

/** Parameters in the address: one `p=name=value` for each. */
export const fromAddress = (list) => Object.fromEntries(list.map((one) => one.split(/=(.*)/s).slice(0, 2)));
export const toAddress = (values, names) => names.map((name) => `${name}=${values[name] ?? ''}`);
