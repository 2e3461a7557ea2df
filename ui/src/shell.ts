// What only the desktop shell knows and does. In a browser there is none of it.
import { invoke, isTauri } from "@tauri-apps/api/core";

export interface About {
  /** The desktop shows the tray icon; null while that is being found out. */
  tray: boolean | null;
  /** Why the service does not run, if it was not stopped on purpose. */
  problem: string | null;
  /** The service is another process. */
  attached: boolean;
}

export const inShell = isTauri();

/** Null outside the shell. */
export const about = async (): Promise<About | null> => (inShell ? await invoke<About>("about") : null);

/** Starts the service that the tray's menu stopped. */
export const startService = (): Promise<void> => invoke("start");

/** Writes a file into the folder for downloads; gives where it is. */
export const saveFile = (name: string, text: string): Promise<string> => invoke("save", { name, text });

/** Tells the shell that the window has drawn: after two frames the first picture is on the screen. */
export function tellPainted(): void {
  if (!inShell) return;
  requestAnimationFrame(() => requestAnimationFrame(() => void invoke("painted")));
}
