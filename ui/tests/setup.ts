// What jsdom lacks and the pages use.
import { cleanup } from "@testing-library/svelte";
import { afterEach } from "vitest";

class Observer implements ResizeObserver {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
}
globalThis.ResizeObserver = Observer;
HTMLElement.prototype.scrollIntoView = () => {};
HTMLElement.prototype.scrollTo = () => {};
HTMLDialogElement.prototype.showModal = function () {
  this.open = true;
};

afterEach(() => {
  cleanup();
  localStorage.clear();
  sessionStorage.clear();
  location.hash = "";
});
