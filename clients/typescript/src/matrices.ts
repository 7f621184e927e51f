/** Matrices as .npy files: many vectors without JSON. */
import { InvalidArgument } from "./errors.js";
import type { Schemas } from "./types.js";

/** Rows of numbers, one after the other: `values.length` is a multiple of `columns`. */
export interface Matrix {
  readonly values: Float32Array | Float64Array;
  readonly columns: number;
}

/** How many rows a matrix has; InvalidArgument if that is no whole number, or if a value is not finite. */
export function rowsOf(matrix: Matrix): number {
  if (typeof matrix !== "object" || matrix === null || !ArrayBuffer.isView(matrix.values))
    throw new InvalidArgument("a matrix is {values: a Float32Array or Float64Array, columns: a number}", null, "bad_parameter");
  const rows = matrix.values.length / matrix.columns;
  if (!(matrix.columns >= 1 && Number.isInteger(matrix.columns) && Number.isInteger(rows))) {
    const text = `${matrix.values.length} values are no rows of ${matrix.columns} columns`;
    throw new InvalidArgument(text, null, "bad_parameter");
  }
  const wrong = matrix.values.findIndex((value) => !Number.isFinite(value));
  if (wrong >= 0)
    throw new InvalidArgument("a vector's values are finite, one of these is not", Math.floor(wrong / matrix.columns), "non_finite");
  return rows;
}

/** Rows from `start` to `stop` as an .npy file of format 1.0; its head is padded to a multiple of 64 bytes. */
export function npyFile(matrix: Matrix, start: number, stop: number): Uint8Array<ArrayBuffer> {
  const { values, columns } = matrix;
  const wide = values instanceof Float64Array;
  const shape = `{'descr': '${wide ? "<f8" : "<f4"}', 'fortran_order': False, 'shape': (${stop - start}, ${columns}), }`;
  const head = shape + " ".repeat((128 - ((10 + shape.length + 1) % 64)) % 64) + "\n";
  const width = values.BYTES_PER_ELEMENT;
  const at = 10 + head.length;
  const file = new Uint8Array(at + (stop - start) * columns * width);
  file.set([0x93, ...new TextEncoder().encode("NUMPY"), 1, 0, head.length & 255, head.length >> 8]);
  file.set(new TextEncoder().encode(head), 10);
  const view = new DataView(file.buffer);
  // Written value by value, so that the file is little-endian on every machine.
  for (let from = start * columns, to = at; from < stop * columns; from++, to += width) {
    const value = values[from] as number;
    if (wide) view.setFloat64(to, value, true);
    else view.setFloat32(to, value, true);
  }
  return file;
}

const IDS_HEADER_BYTES = 30_000;
const LATER_THAN_ASCII = /[\u007f-\uffff]/g;

/** Ids as a header: a JSON array in ASCII. */
export function idsHeader(ids: readonly string[]): string {
  return JSON.stringify(ids).replace(LATER_THAN_ASCII, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The end of the longest run of ids from `start`, at most to `stop`, that a header has room for; at least one id. */
export function headerStop(ids: readonly string[], start: number, stop: number): number {
  // Servers and proxies refuse headers of more than 32 or 64 kB.
  for (let place = start, length = 2; place < stop; place++) {
    length += idsHeader([ids[place] ?? ""]).length - 1;
    if (length > IDS_HEADER_BYTES && place > start) return place;
  }
  return stop;
}

/** The options of a query that an address carries, and so a request whose body is a matrix. */
export type MatrixQueryOptions = Schemas["QueryOptions"];
