// The part after the last event: the reply that the model is writing.
import { html } from '../../lib/ui.js';
import { Markdown } from '../../ui/markdown.js';
import { Fold } from '../cards/card.js';

export function Tail({ pieces, isRunning }) {
  const piece = pieces.value;
  if (piece && (piece.text || piece.reasoning)) {
    return html`
      <article class="card card-agent coming" aria-label="A reply on its way" aria-busy="true">
        <header><span class="who">Agent</span><span class="soft">writes …</span></header>
        ${piece.reasoning && html`<${Fold} summary="Reasoning" isOpen=${!piece.text}><${Markdown} text=${piece.reasoning} /><//>`}
        <${Markdown} text=${piece.text} />
      </article>`;
  }
  return html`<p class="soft working">${isRunning ? 'The agent is at work …' : ''}</p>`;
}
