// Starts the window: takes the token out of the address, then draws.
import { mount } from "svelte";
import App from "./App.svelte";
import { takeToken } from "./backend";
import "./tokens.css";
import "./ui.css";

takeToken();
const target = document.getElementById("app");
if (target) mount(App, { target });
