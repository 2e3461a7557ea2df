import { describe, expect, it } from "vitest";
import { setValue, split, value, withBody } from "../src/state/frontmatter";

const FILE = `---
name: pack-a-box # the folder has this name
description: >
  Packs a box.
  Use when: something is fragile.
# kept
metadata:
  metaclaw-category: general
  other: "a \\"b\\""
---

# Pack

1. Heavy first.
`;

describe("front matter", () => {
  it("reads plain, folded, quoted and nested values", () => {
    expect(value(FILE, "name")).toBe("pack-a-box");
    expect(value(FILE, "description")).toBe("Packs a box. Use when: something is fragile.");
    expect(value(FILE, "metadata.metaclaw-category")).toBe("general");
    expect(value(FILE, "metadata.other")).toBe('a "b"');
    expect(value(FILE, "metadata.missing")).toBe("");
    expect(value("---\ntitle: 'it''s'\n---\n", "title")).toBe("it's");
  });

  it("changes one value and leaves every other byte", () => {
    const now = setValue(FILE, "metadata.metaclaw-category", "moving: house");
    expect(now).toBe(FILE.replace("metaclaw-category: general", 'metaclaw-category: "moving: house"'));
    expect(value(now, "metadata.metaclaw-category")).toBe("moving: house");
    expect(setValue(now, "metadata.metaclaw-category", "general")).toBe(FILE);
  });

  it("puts values in and takes them out again", () => {
    const now = setValue(FILE, "metadata.metaclaw-keywords", "box, parcel");
    expect(value(now, "metadata.metaclaw-keywords")).toBe("box, parcel");
    expect(setValue(now, "metadata.metaclaw-keywords", "")).toBe(FILE);
    const bare = "---\nname: a\n---\nx\n";
    const nested = setValue(bare, "metadata.k", "v");
    expect(nested).toBe("---\nname: a\nmetadata:\n  k: v\n---\nx\n");
    expect(setValue(nested, "metadata.k", "")).toBe(bare);
  });

  it("replaces a folded value by one line", () => {
    const now = setValue(FILE, "description", "Packs a box.");
    expect(now).toContain("description: Packs a box.\n# kept\n");
    expect(value(now, "description")).toBe("Packs a box.");
  });

  it.each(["yes", "12", "- x", "a: b", "# x", "", '"', "[a]", "null"])("reads back %j as it was written", (text) => {
    const now = setValue("---\nname: a\ndescription: b\n---\n", "description", text === "" ? "b" : text);
    expect(value(now, "description")).toBe(text === "" ? "b" : text);
  });

  it("numbers the body by the lines of the file", () => {
    const parts = split(FILE);
    expect(parts?.line).toBe(12);
    expect(parts?.body.startsWith("# Pack")).toBe(true);
    expect(FILE.split("\n")[11]).toBe("# Pack");
    expect(withBody(FILE, "new\n")).toBe(FILE.slice(0, FILE.indexOf("# Pack")) + "new\n");
    expect(withBody(FILE, parts?.body ?? "")).toBe(FILE);
  });

  it("keeps Windows line ends", () => {
    const crlf = FILE.replaceAll("\n", "\r\n");
    expect(setValue(setValue(crlf, "name", "x"), "name", "pack-a-box")).toBe(crlf.replace("name: pack-a-box # the folder has this name", "name: pack-a-box"));
  });

  it("leaves a file without front matter alone", () => {
    expect(split("# no")).toBeNull();
    expect(setValue("# no", "name", "x")).toBe("# no");
  });
});
