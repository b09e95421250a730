// Style sheets that only some views need are asked for with the view.
import { useLayoutEffect } from './ui.js';

const asked = new Set();

export function useSheet(name) {
  useLayoutEffect(() => {
    if (asked.has(name)) return;
    asked.add(name);
    const link = document.createElement('link');
    link.rel = 'stylesheet';
    link.href = new URL(`../style/${name}.css`, import.meta.url);
    document.head.append(link);
  }, [name]);
}
