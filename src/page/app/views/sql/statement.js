// What a statement's text tells without running it.

/** The names of its parameters, in order; what stands in texts, names in quotes and comments is none. */
export function parametersOf(sql) {
  const bare = sql.replace(/'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|--.*|\/\*[^]*?(?:\*\/|$)/g, ' ');
  return [...new Set([...bare.matchAll(/[:@$]([A-Za-z_]\w*)/g)].map((found) => found[1]))];
}

/** A typed value as `annals query --param` takes it: a number where it is one, `'5'` the text 5, nothing NULL. */
export function valueOf(typed) {
  const text = typed.trim();
  if (text === '') return null;
  if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)) {
    const number = Number(text);
    // What a number of JavaScript cannot hold exactly stays the text that was typed.
    return Number.isInteger(number) && !Number.isSafeInteger(number) ? text : number;
  }
  return /^'[^]*'$/.test(text) ? text.slice(1, -1).replaceAll("''", "'") : typed;
}

/** Parameters in the address: `p=name=value`, as often as there are any. */
export const fromAddress = (list) => Object.fromEntries(list.map((one) => one.split(/=(.*)/s).slice(0, 2)));
export const toAddress = (values, names) => names.map((name) => `${name}=${values[name] ?? ''}`);
