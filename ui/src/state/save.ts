// Files for the person: the browser's downloads, or in the desktop window the shell, which writes them into the same folder.
import { shellWord } from "../i18n/shell";
import { inShell, saveFile } from "../shell";
import { toasts } from "./toasts.svelte";

/** Gives a text to the person as a file. */
export async function save(name: string, text: string, type: string): Promise<void> {
  if (inShell) {
    try {
      toasts.say(shellWord("saved").replace("{path}", await saveFile(name, text)));
    } catch (error) {
      toasts.say(shellWord("not_saved").replace("{reason}", String(error)));
    }
    return;
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
