// Listens to the console, and shows what it says, once a frame at most.
import { showAudit, showBrokers } from "./brokers.js";
import { showOverview, showTimeline } from "./overview.js";
import { beginPartitions, showPartitions } from "./partitions.js";
import { state, take } from "./state.js";

let due = false;
function show() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    showOverview();
    showPartitions();
    showTimeline();
    showBrokers();
    showAudit();
  });
}

function heard() {
  state.connected = true;
  state.heard = Date.now();
  show();
}

beginPartitions(show);
const events = new EventSource("events");
events.addEventListener("message", (event) => {
  take(JSON.parse(event.data));
  heard();
});
events.addEventListener("open", heard);
events.addEventListener("alive", heard);
events.addEventListener("error", () => {
  state.connected = false;
  show();
});
addEventListener("pagehide", () => events.close());
setInterval(show, 5000); // otherwise ages would stand still without news
