// Looking at what the server says again and again, for views that nothing is pushed to.

import { effect, onEnd, signal } from "./reactive.js";

const EVERY = 2000; // milliseconds between looks

// Read now and every two seconds, as long as the view is there. `error` says why that failed last;
// `look` reads at once.
export function polled(read) {
  const error = signal(null);
  const look = async () => {
    try {
      await read();
      error.value = null;
    } catch (problem) {
      error.value = problem.message;
    }
  };
  effect(() => {
    look();
    const timer = setInterval(look, EVERY);
    onEnd(() => clearInterval(timer));
  });
  return { error, look };
}
