// Style sheets that only some views need. They are loaded with the view.

/** The promises of the requested sheets, by name. */
const sheets = new Map();

/** Loads a sheet. Resolves even if it cannot be loaded, because a view without its style is better than no view. */
function sheet(name) {
  if (!sheets.has(name)) {
    sheets.set(name, new Promise((resolve) => {
      const link = document.createElement('link');
      link.rel = 'stylesheet';
      link.href = new URL(`../style/${name}.css`, import.meta.url);
      link.onload = resolve;
      link.onerror = () => {
        // The next view that needs the sheet tries again.
        sheets.delete(name);
        link.remove();
        resolve();
      };
      document.head.append(link);
    }));
  }
  return sheets.get(name);
}

/** Returns a view's module after its sheets were loaded, so that the view is not drawn before they apply. */
export const withSheets = async (module, ...names) => (await Promise.all([module, ...names.map(sheet)]))[0];
