// A service with a provider that stands until its standard input ends, for a window that is looked at from outside: prints
// one line of JSON with its home and the address of every page. With "fresh" it is not set up.
import { seedAll } from "./places.mjs";
import { startProvider } from "./provider.mjs";
import { startService } from "./service.mjs";

const [binary, fresh] = process.argv.slice(2);
const provider = await startProvider();
const service = await startService(binary);
const setup = Object.fromEntries(["agent", "provider", "skills", "training"].map((step) => [`setup-${step}`, `#/setup/${step}`]));
const places = fresh === "fresh" ? setup : (await seedAll(service, provider)).places;
console.log(JSON.stringify({ home: service.home, places }));
process.stdin.resume();
await new Promise((done) => process.stdin.once("end", done));
await service.stop();
provider.stop();
