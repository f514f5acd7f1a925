/** The worker that all tabs of a browser share; its name is where the stream is. */

import { LiveHub } from "./live_hub.js";
import { liveWorld } from "./live_world.js";

const hub = new LiveHub(liveWorld(self.name));

self.addEventListener("connect", (event) => {
  const [tab] = /** @type {MessageEvent} */ (event).ports;
  tab.addEventListener("message", (message) => hub.hear(tab, message.data));
  tab.start();
});
