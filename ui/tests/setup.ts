// What jsdom lacks and the pages use.
import { cleanup, configure } from "@testing-library/svelte";
import { afterEach } from "vitest";

// What is awaited comes at once, or later on a busy machine; a failure only takes longer to be told.
configure({ asyncUtilTimeout: 15_000 });

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
