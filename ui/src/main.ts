// Starts the window: takes the token out of the address, then draws.
import { mount } from "svelte";
import App from "./App.svelte";
import { takeToken } from "./backend";
import ShellBar from "./parts/ShellBar.svelte";
import { inShell, tellPainted } from "./shell";
import "./tokens.css";
import "./ui.css";

takeToken();
const target = document.getElementById("app");
if (target) {
  mount(App, { target });
  if (inShell) mount(ShellBar, { target: document.body });
  tellPainted();
}
