// The slider through the log.
import { html } from '../../lib/ui.js';
import { count, moment } from '../../lib/format.js';
import { Icon } from '../../ui/icon.js';

export function Time({ context }) {
  const total = context.log.total.value;
  context.log.version.value;
  const last = Math.max(0, total - 1);
  const now = context.at.value ?? last;
  const isPast = context.at.value !== null;
  const go = (sequence) => {
    context.setAt(sequence);
    if (sequence === null) context.control.current?.goToEnd();
    else context.control.current?.goTo(Math.max(0, Math.min(sequence, last)));
  };
  const when = context.log.entry(now)?.event.timestamp;
  const text = `event ${count(now)} of ${count(last)}`;
  return html`
    <div class=${`time ${isPast ? 'past' : ''}`} role="group" aria-label="Time">
      <button class="plain" onClick=${() => go(0)} aria-label="The beginning" title="The beginning"><${Icon} name="first" /></button>
      <button class="plain" onClick=${() => go(now - 1)} disabled=${now === 0} aria-label="One step back" title="One step back  ["><${Icon} name="left" /></button>
      <input type="range" min="0" max=${last} value=${now} aria-label="Point in time" aria-valuetext=${text}
        onInput=${(event) => go(Number(event.currentTarget.value))} />
      <button class="plain" onClick=${() => go(now + 1)} disabled=${!isPast} aria-label="One step forward" title="One step forward  ]"><${Icon} name="right" /></button>
      <button class="plain" onClick=${() => go(null)} disabled=${!isPast} aria-label="Now" title="Now  ."><${Icon} name="last" /></button>
      <span class="time-text nowrap">${isPast ? html`<strong>#${count(now)}</strong> of ${count(last)}` : html`<span class="soft">now, #${count(last)}</span>`}
        ${isPast && when && html`<span class="soft"> · ${moment(when)}</span>`}</span>
    </div>`;
}
