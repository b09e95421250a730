// Splits a snippet at its marks. Marks are byte offsets into its UTF-8 form.
const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** `[{ text, isMark }]` */
export function marked(snippet, marks) {
  const bytes = encoder.encode(snippet);
  const parts = [];
  let from = 0;
  const put = (to, isMark) => {
    if (to > from) parts.push({ text: decoder.decode(bytes.subarray(from, to)), isMark });
    from = Math.max(from, to);
  };
  for (const [start, end] of marks) {
    put(start, false);
    put(end, true);
  }
  put(bytes.length, false);
  return parts;
}
