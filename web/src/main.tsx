import { render } from "preact";
import { App } from "./app";
import { startKeys } from "./base/keys";
import { startSession } from "./base/session";
import { startTheme } from "./base/theme";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import "./submit/submit.css";
import "./events/events.css";
import "./settings/settings.css";

startTheme();
startKeys();
startSession();
const root = document.getElementById("app");
if (root) render(<App />, root);
