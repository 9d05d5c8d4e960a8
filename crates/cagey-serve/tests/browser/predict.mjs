// node predict.mjs MODULE MODEL p x1 x2 …: prints a quantile of the target at a row.
import { readFileSync } from "node:fs";

const [module, file, p, ...row] = process.argv.slice(2);
const { instance } = await WebAssembly.instantiate(readFileSync(module), {});
const { memory, room, load, quantile } = instance.exports;

const bytes = readFileSync(file);
const place = room(bytes.length);
new Uint8Array(memory.buffer, place, bytes.length).set(bytes);
if (load(place, bytes.length) !== row.length) throw new Error("another number of inputs");

const numbers = room(8 * row.length);
new Float64Array(memory.buffer, numbers, row.length).set(row.map(Number));
console.log(quantile(numbers, row.length, Number(p)));
