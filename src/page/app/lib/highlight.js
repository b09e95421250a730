// Highlights words in an element without changing the element: the browser paints the ranges.

const RANGES_MAX = 200;

/** Returns the words of a search: phrases without their quotation marks, and no excluded words. */
export function wordsOf(query) {
  const words = [];
  for (const found of query.matchAll(/(-?)(?:"([^"]+)"|(\S+))/g)) {
    const word = (found[2] ?? found[3]).replace(/[*"]/g, '').toLowerCase();
    if (!found[1] && word && !['and', 'or', 'not'].includes(word)) words.push(word);
  }
  return words;
}

/** Highlights `words` in an element. Does nothing if the browser does not support highlights. */
export function highlight(element, words) {
  if (!globalThis.CSS?.highlights) return;
  const ranges = [];
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  while (walker.nextNode() && ranges.length < RANGES_MAX) {
    const text = walker.currentNode.data.toLowerCase();
    for (const word of words) {
      for (let at = text.indexOf(word); at >= 0 && ranges.length < RANGES_MAX; at = text.indexOf(word, at + word.length)) {
        const range = new Range();
        range.setStart(walker.currentNode, at);
        range.setEnd(walker.currentNode, Math.min(at + word.length, walker.currentNode.length));
        ranges.push(range);
      }
    }
  }
  CSS.highlights.set('found', new Highlight(...ranges));
}

export const unhighlight = () => globalThis.CSS?.highlights?.delete('found');
