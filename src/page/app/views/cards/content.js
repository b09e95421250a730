// The content of messages and results: texts and pictures.
import { html, useState } from '../../lib/ui.js';
import { bytes } from '../../lib/format.js';
import { showError } from '../../lib/notes.js';
import { whole } from './output.js';

const IMAGE = /^data:image\/(png|jpeg|gif|webp|avif);base64,/;

/** Returns the value if it is a list, otherwise an empty list. Events of other programs may be malformed. */
export const list = (value) => (Array.isArray(value) ? value : []);

/** Returns the texts of a list of parts. */
export function texts(content) {
  if (typeof content === 'string') return [content];
  return list(content).filter((part) => part?.type === 'text').map((part) => String(part.text ?? ''));
}

/** Returns the pictures of a list of parts, each with its JSON pointer. */
export const pictures = (content, pointer) => list(content).flatMap((part, index) => (part?.type === 'image'
  ? list(part.image_urls).map((url, place) => ({ url: String(url), pointer: `${pointer}/${index}/image_urls/${place}` })) : []));

/** A picture that the event contains. A picture at another address is named and never fetched. */
function Picture({ picture, entry, context }) {
  const cut = entry.cut?.[picture.pointer];
  const [url, setUrl] = useState(cut ? null : picture.url);
  const [isLarge, setLarge] = useState(false);
  const [isBroken, setBroken] = useState(false);
  if (isBroken) return html`<p class="soft">A picture that cannot be shown, ${bytes(picture.url.length * 0.75)}.</p>`;
  if (!IMAGE.test(picture.url)) return html`<p class="soft">A picture elsewhere: <code>${picture.url.slice(0, 200)}</code></p>`;
  const load = () => whole(context, entry.sequence, picture.pointer).then(setUrl, showError);
  if (!url) return html`<button class="small" onClick=${load}>Show the picture (${bytes(cut * 0.75)})</button>`;
  return html`
    <button class="picture" aria-pressed=${isLarge} aria-label=${isLarge ? 'Smaller' : 'Larger'} onClick=${() => setLarge(!isLarge)}>
      <img src=${url} alt="A picture in this event" onError=${() => setBroken(true)} class=${isLarge ? 'large' : ''} /></button>`;
}

export const Pictures = ({ content, pointer, entry, context }) => {
  const all = pictures(content, pointer);
  return all.length > 0 && html`<div class="pictures">${all.map((picture) => html`
    <${Picture} key=${picture.pointer} picture=${picture} entry=${entry} context=${context} />`)}</div>`;
};
