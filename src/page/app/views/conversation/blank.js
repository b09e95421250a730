// Messages of the agent that show nothing: Claude Code writes some with line breaks alone before it thinks.
import { list, texts } from '../cards/content.js';

/** Returns the model's reasoning before a message. */
export function reasoningOf(event) {
  const message = event.llm_message;
  const reasoning = message?.reasoning_content ?? event.reasoning_content;
  const blocks = list(message?.thinking_blocks ?? event.thinking_blocks).map((block) => block?.thinking).filter(Boolean);
  return reasoning || blocks.join('\n\n');
}

/** Returns whether a message has neither a text nor reasoning nor pictures. */
export function isBlank(event) {
  const message = event.llm_message ?? {};
  const hasPictures = list(message.content).some((part) => part?.type === 'image' || part?.image_urls);
  return !texts(message.content).join('').trim() && !reasoningOf(event) && !hasPictures;
}

/** Returns whether an event is a blank message of the agent, which is a notice and has no card. */
export const isBlankReply = (event) => event?.kind === 'MessageEvent' && event.source === 'agent' && isBlank(event)
  && list(event.extended_content).length === 0;
