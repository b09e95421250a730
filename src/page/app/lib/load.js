// What a component shows of an answer that is on its way: the value, the error, and again.
import { useEffect, useState, useCallback } from './ui.js';
import { isAbort } from './api.js';

/**
 * Loads with `load(signal)` whenever `inputs` change; what came before stays until the new answer is there.
 * @returns {{value: any, error: Error | null, isLoading: boolean, again: () => void, set: (value: any) => void}}
 */
export function useLoad(load, inputs) {
  const [state, setState] = useState({ value: undefined, error: null, isLoading: true });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    setState((old) => ({ ...old, isLoading: true }));
    load(abort.signal).then(
      (value) => { if (!abort.signal.aborted) setState({ value, error: null, isLoading: false }); },
      (error) => {
        if (!abort.signal.aborted && !isAbort(error)) setState((old) => ({ ...old, error, isLoading: false }));
      },
    );
    return () => abort.abort();
  }, [...inputs, round]);
  const again = useCallback(() => setRound((old) => old + 1), []);
  const set = useCallback((value) => setState((old) => ({ ...old, value })), []);
  return { ...state, again, set };
}

/** The value as it was `ms` after it last changed. */
export function useCalm(value, ms) {
  const [calm, setCalm] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setCalm(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return calm;
}
