// CodeMirror as the skill editor: Markdown, the file's own line numbers, findings of the service as marks.
import { defaultKeymap, history, historyKeymap, indentMore } from "@codemirror/commands";
import { markdown } from "@codemirror/lang-markdown";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

export interface Finding {
  /** Line of the file, from 1. */
  line: number | null;
  severity: string;
  message: string;
}

export interface Options {
  value: string;
  line: number;
  label: string;
  onchange: (value: string) => void;
  onsave: () => void;
  phrases: { find: string };
}

export interface Editor {
  setText(value: string): void;
  setLine(line: number): void;
  setFindings(findings: readonly Finding[]): void;
  goTo(line: number): void;
  destroy(): void;
}

const look = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "transparent", fontSize: "var(--t-2)" },
  "&.cm-focused": { outline: "2px solid var(--focus)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "20px", fontVariantLigatures: "none" },
  ".cm-content": { padding: "6px 0", caretColor: "var(--ink)" },
  ".cm-line": { padding: "0 var(--s-5) 0 2px" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--ink-3)", border: "0" },
  ".cm-lineNumbers .cm-gutterElement": { minWidth: "34px", padding: "0 12px 0 0" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "transparent" },
  "&.cm-focused .cm-activeLine": { backgroundColor: "var(--hover)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--press)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "3px" },
  ".cm-lintRange-warning, .cm-lintRange-info": { backgroundImage: "none", textDecoration: "underline wavy var(--warn)", textUnderlineOffset: "3px" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", border: "0", borderRadius: "var(--r-2)", boxShadow: "var(--shadow-2)" },
  ".cm-panels": { backgroundColor: "var(--sunk)", color: "var(--ink)" },
  ".cm-searchMatch": { backgroundColor: "var(--warn-wash)" },
});

const colours = HighlightStyle.define([
  { tag: tags.heading, fontWeight: "700" },
  { tag: tags.strong, fontWeight: "700" },
  { tag: tags.emphasis, textDecoration: "underline", textDecorationColor: "var(--line-2)" },
  { tag: [tags.monospace, tags.link, tags.url], color: "var(--ink-2)" },
  { tag: [tags.processingInstruction, tags.meta, tags.contentSeparator], color: "var(--ink-3)" },
]);

export function create(parent: HTMLElement, options: Options): Editor {
  let offset = options.line;
  let quiet = false;
  const numbers = new Compartment();
  const numbered = (line: number): ReturnType<typeof lineNumbers> => lineNumbers({ formatNumber: (n) => String(n + line - 1) });

  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: options.value,
      extensions: [
        numbers.of(numbered(offset)),
        history(),
        drawSelection(),
        highlightActiveLine(),
        EditorView.lineWrapping,
        markdown(),
        syntaxHighlighting(colours),
        search({ top: true }),
        EditorState.phrases.of({ Find: options.phrases.find }),
        keymap.of([
          {
            key: "Mod-s",
            preventDefault: true,
            run: () => {
              options.onsave();
              return true;
            },
          },
          ...defaultKeymap,
          ...historyKeymap,
          ...searchKeymap,
          { key: "Mod-]", run: indentMore },
        ]),
        EditorView.contentAttributes.of({ "aria-label": options.label, spellcheck: "false", tabindex: "0" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !quiet) options.onchange(update.state.doc.toString());
        }),
        look,
      ],
    }),
  });

  return {
    setText(value) {
      if (view.state.doc.toString() === value) return;
      quiet = true;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value } });
      quiet = false;
    },
    setLine(line) {
      if (line === offset) return;
      offset = line;
      view.dispatch({ effects: numbers.reconfigure(numbered(line)) });
    },
    setFindings(findings) {
      const marks: Diagnostic[] = findings.flatMap((finding) => {
        const at = (finding.line ?? 0) - offset + 1;
        if (at < 1 || at > view.state.doc.lines) return [];
        const line = view.state.doc.line(at);
        const severity = finding.severity === "error" ? "error" : finding.severity === "warning" ? "warning" : "info";
        return [{ from: line.from, to: line.to, severity, message: finding.message }];
      });
      view.dispatch(setDiagnostics(view.state, marks));
    },
    goTo(line) {
      const at = Math.max(1, Math.min(view.state.doc.lines, line - offset + 1));
      const place = view.state.doc.line(at);
      view.dispatch({ selection: { anchor: place.from }, scrollIntoView: true });
      view.focus();
    },
    destroy: () => view.destroy(),
  };
}
