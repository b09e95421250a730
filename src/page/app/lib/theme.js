// Light or dark: the system's theme, unless the user has chosen one.
import { signal } from './ui.js';

const PLACE = 'annals-theme';
const CHOICES = ['system', 'light', 'dark'];

const stored = () => {
  try {
    const value = localStorage.getItem(PLACE);
    return CHOICES.includes(value) ? value : 'system';
  } catch {
    return 'system';
  }
};

export const theme = signal(stored());

export function applyTheme() {
  const root = document.documentElement;
  if (theme.value === 'system') delete root.dataset.theme;
  else root.dataset.theme = theme.value;
}

export function nextTheme() {
  theme.value = CHOICES[(CHOICES.indexOf(theme.value) + 1) % CHOICES.length];
  try {
    localStorage.setItem(PLACE, theme.value);
  } catch { /* not stored: the choice lasts as long as the page */ }
  applyTheme();
}
