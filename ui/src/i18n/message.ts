// What a message is, and how one becomes text. A message is a whole sentence with named slots `{name}`; where its words
// depend on a count it has one form per plural category of its language, chosen by the slot named in `by`.

export interface Plural {
  readonly by: string;
  readonly zero?: string;
  readonly one?: string;
  readonly two?: string;
  readonly few?: string;
  readonly many?: string;
  readonly other: string;
}

export type Message = string | Plural;

type Names<S extends string> = S extends `${string}{${infer Name}}${infer Rest}` ? Name | Names<Rest> : never;

/** The slots of a message, read from its text by the type checker. */
export type Slots<M> = M extends string ? Names<M> : M extends { by: infer By extends string; other: infer Other extends string } ? By | Names<Other> : never;

export type Values<M> = { [Name in Slots<M>]: string | number };

/** The catalogue of another language: the same keys, each a message of its own. A missing key does not compile. */
export type Translation<C> = { readonly [K in keyof C]: Message };

export interface Formats {
  readonly plural: Intl.PluralRules;
  readonly number: Intl.NumberFormat;
}

export function render(message: Message, values: Record<string, string | number>, formats: Formats): string {
  let text: string;
  if (typeof message === "string") {
    text = message;
  } else {
    const count = values[message.by];
    const category = typeof count === "number" ? formats.plural.select(count) : "other";
    // 0 has its own sentence where one is written, even in languages without a zero category.
    text = (count === 0 ? message.zero : undefined) ?? message[category] ?? message.other;
  }
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name];
    if (value === undefined) return whole;
    return typeof value === "number" ? formats.number.format(value) : value;
  });
}

/** Slot names of a message, for the test that compares languages. */
export function slots(message: Message): Set<string> {
  const texts = typeof message === "string" ? [message] : Object.entries(message).flatMap(([key, text]) => (key === "by" ? [`{${text}}`] : [text as string]));
  return new Set(texts.flatMap((text) => [...text.matchAll(/\{(\w+)\}/g)].map((m) => m[1] ?? "")));
}
