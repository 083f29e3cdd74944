import { render } from "preact";
import { App } from "./app";
import { startSession } from "./session";
import "uplot/dist/uPlot.min.css";
import "./style.css";

startSession();
const root = document.getElementById("app");
if (root) render(<App />, root);
