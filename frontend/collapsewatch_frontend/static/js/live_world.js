/** The network, as the event stream needs it: in a page, and in the worker that pages share. */

/** After more missed events than these to load everything is quicker. */
const MOST_MISSED = 1000;

/** What a `LiveConnection` to the API below `prefix` needs. */
export function liveWorld(prefix) {
  return {
    open(lastEventId) {
      const query = lastEventId === null ? "" : `?last_event_id=${lastEventId}&max_missed=${MOST_MISSED}`;
      return new EventSource(`${prefix}/stream${query}`);
    },
    async ask() {
      try {
        const response = await fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(5_000) });
        return response.ok;
      } catch {
        return false;
      }
    },
  };
}
