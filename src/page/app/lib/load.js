// Hooks that load an answer (its value, its error, and a way to load it again), and hooks that delay a changing value.
import { useEffect, useRef, useState, useCallback } from './ui.js';
import { isAbort } from './api.js';

/**
 * Loads with `load(signal)` whenever `inputs` change. The previous value stays until the new one has arrived.
 * @returns {{value: any, error: Error | null, isLoading: boolean, reload: () => void, set: (value: any) => void}}
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
  const reload = useCallback(() => setRound((old) => old + 1), []);
  const set = useCallback((value) => setState((old) => ({ ...old, value })), []);
  return { ...state, reload, set };
}

/**
 * Like `useLoad`, but sends one request at a time. Of the inputs that change meanwhile only the latest is loaded. It is
 * for answers that cost the server work even if the client no longer waits for them.
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
  const reload = useCallback(() => setRound((old) => old + 1), []);
  return { ...state, reload };
}

/** Returns the value, updated at most once in `ms` milliseconds. */
export function useThrottled(value, ms) {
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

/** Returns the latest value that stayed the same for `ms` milliseconds. */
export function useDebounced(value, ms) {
  const [calm, setCalm] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setCalm(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return calm;
}
