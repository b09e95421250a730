// The parts of every card: who, what, when, its number, and the menu of actions.
import { html, cx, useState, useEffect, useRef } from '../../lib/ui.js';
import { time, moment } from '../../lib/format.js';
import { href } from '../../lib/router.js';
import { Icon } from '../../ui/icon.js';

/** The menu of actions on an event. */
function Menu({ sequence, event, context }) {
  const [isOpen, setOpen] = useState(false);
  const element = useRef(null);
  useEffect(() => {
    if (!isOpen) return undefined;
    element.current?.querySelector('[role=menuitem]')?.focus();
    const outside = (pressed) => { if (!element.current?.contains(pressed.target)) setOpen(false); };
    addEventListener('pointerdown', outside);
    return () => removeEventListener('pointerdown', outside);
  }, [isOpen]);
  const entries = [
    ['Raw JSON', () => context.openRaw(sequence)],
    ['State here', () => context.setAt(sequence)],
    ['What the model saw', () => context.openMessages(sequence)],
    ['Fork from here', () => context.fork(event.id)],
    ['Move HEAD here', () => context.navigate(event.id)],
    ['Compare with now', () => context.compare(sequence)],
  ].filter(([name]) => context.mayWrite() || !['Fork from here', 'Move HEAD here'].includes(name));
  const keys = (pressed) => {
    const all = [...element.current.querySelectorAll('[role=menuitem]')];
    const place = all.indexOf(document.activeElement);
    if (pressed.key === 'Escape') {
      setOpen(false);
      element.current.querySelector('button').focus();
    } else if (pressed.key === 'ArrowDown') all[(place + 1) % all.length]?.focus();
    else if (pressed.key === 'ArrowUp') all.at(place - 1)?.focus();
    else return;
    pressed.preventDefault();
    pressed.stopPropagation();
  };
  return html`
    <span class="menu" ref=${element} onKeyDown=${keys} onClick=${(clicked) => clicked.stopPropagation()}>
      <button class="plain small" aria-haspopup="menu" aria-expanded=${isOpen} aria-label=${`More about event ${sequence}`}
        onClick=${() => setOpen(!isOpen)}><${Icon} name="more" /></button>
      ${isOpen && html`<span class="menu-list" role="menu">
        ${entries.map(([name, run]) => html`
          <button key=${name} role="menuitem" class="plain" onClick=${() => { setOpen(false); run(); }}>${name}</button>`)}
      </span>`}
    </span>`;
}

/** The right end of a card's head: time, number, menu. */
export const Corner = ({ entry, context }) => html`
  <span class="corner">
    <time datetime=${entry.event.timestamp} title=${moment(entry.event.timestamp)}>${entry.event.timestamp ? time(entry.event.timestamp) : ''}</time>
    <a class="place" href=${href(['c', context.id], { event: entry.sequence })} title="A link to this event">#${entry.sequence}</a>
    <${Menu} sequence=${entry.sequence} event=${entry.event} context=${context} />
  </span>`;

export function Card({ kind, label, icon, subject, badges, entry, context, tone, children }) {
  return html`
    <article class=${cx('card', `card-${kind}`, tone && `tone-${tone}`)} aria-label=${`${label}, event ${entry.sequence}`}>
      <header>
        <span class="who">${icon && html`<${Icon} name=${icon} />`}${label}</span>
        ${subject && html`<span class="subject">${subject}</span>`}
        ${badges}
        <span class="grow"></span>
        <${Corner} entry=${entry} context=${context} />
      </header>
      ${children}
    </article>`;
}

/** Content that is folded until the user opens it. */
export function Fold({ summary, children, isOpen = false }) {
  const [open, setOpen] = useState(isOpen);
  return html`
    <details class="fold" open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>${summary}</summary>${open && children}</details>`;
}

export const Badge = ({ tone, title, children }) => html`<span class=${cx('badge', tone && `badge-${tone}`)} title=${title}>${children}</span>`;
