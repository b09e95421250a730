// What a component shows of an answer that is on its way: the value, the error, and again.
import { useEffect, useRef, useState, useCallback } from './ui.js';
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

/**
 * As `useLoad`, but one request at a time: what is asked for meanwhile waits, and only the last of it is asked. For answers
 * that cost the server something, even where nobody listens any more.
 */
export function useLatest(load, input) {
  const [state, setState] = useState({ value: undefined, error: null, isLoading: true });
  const [round, setRound] = useState(0);
  const place = useRef({ wanted: null, isBusy: false, isGone: false, abort: new AbortController() });
  useEffect(() => () => {
    place.current.isGone = true;
    place.current.abort.abort();
  }, []);
  useEffect(() => {
    const here = place.current;
    here.wanted = { input };
    const next = async () => {
      here.isBusy = true;
      setState((old) => ({ ...old, isLoading: true }));
      while (here.wanted && !here.isGone) {
        const { input: wanted } = here.wanted;
        here.wanted = null;
        try {
          const value = await load(wanted, here.abort.signal);
          if (!here.isGone) setState({ value, error: null, isLoading: here.wanted !== null });
        } catch (error) {
          if (!here.isGone && !here.wanted) setState((old) => ({ ...old, error, isLoading: false }));
        }
      }
      here.isBusy = false;
    };
    if (!here.isBusy) next();
  }, [input, round]);
  const again = useCallback(() => setRound((old) => old + 1), []);
  return { ...state, again };
}

/** The value, changed every `ms` at most. */
export function useEvery(value, ms) {
  const [shown, setShown] = useState(value);
  const place = useRef({ value, timer: null });
  place.current.value = value;
  useEffect(() => {
    const here = place.current;
    here.timer ??= setTimeout(() => {
      here.timer = null;
      setShown(here.value);
    }, ms);
  }, [value]);
  useEffect(() => () => clearTimeout(place.current.timer), []);
  return shown;
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
