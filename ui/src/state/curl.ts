// A request as a command line: the same bytes, with the key left to the shell.

const PATHS: Readonly<Record<string, string>> = {
  "openai-chat": "/chat/completions",
  "openai-responses": "/responses",
  "anthropic-messages": "/messages",
};

/** A single-quoted shell word. */
const word = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

export function curl(base: string, dialect: string, body: string): string {
  const address = `${base}${PATHS[dialect] ?? ""}`;
  return `curl ${word(address)} -H 'content-type: application/json' -H "authorization: Bearer $METACLAW_KEY" --data-binary ${word(body)}`;
}
