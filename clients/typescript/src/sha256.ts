/**
 * SHA-256 (FIPS 180-4) of bytes that come in pieces.
 *
 * Web Crypto takes all bytes at once, and is not there on pages without TLS; a snapshot may be larger than memory.
 */

const K = new Uint32Array(64);
const START = new Uint32Array(8);

/** The first 32 bits of the fractional parts of the square and cube roots of the first primes, section 4.2.2 and 5.3.3. */
function fill(): void {
  const fraction = (value: number): number => Math.floor((value - Math.floor(value)) * 2 ** 32);
  for (let candidate = 2, found = 0; found < 64; candidate++) {
    let divisor = 2;
    while (divisor * divisor <= candidate && candidate % divisor !== 0) divisor++;
    if (divisor * divisor <= candidate) continue;
    if (found < 8) START[found] = fraction(Math.sqrt(candidate));
    K[found++] = fraction(Math.cbrt(candidate));
  }
}
fill();

/** A digest under way. */
export class Sha256 {
  readonly #state = START.slice();
  readonly #words = new Uint32Array(64);
  readonly #block = new Uint8Array(64);
  readonly #view = new DataView(this.#block.buffer);
  #held = 0;
  #bytes = 0;

  /** Add a piece. */
  update(piece: Uint8Array): this {
    this.#bytes += piece.length;
    for (let at = 0; at < piece.length; ) {
      const taken = Math.min(64 - this.#held, piece.length - at);
      this.#block.set(piece.subarray(at, at + taken), this.#held);
      this.#held += taken;
      at += taken;
      if (this.#held === 64) this.#compress();
    }
    return this;
  }

  /** The digest of all pieces, in hexadecimal. Nothing can be added behind it. */
  hex(): string {
    const bytes = this.#bytes;
    this.#block.fill(0, this.#held);
    this.#block[this.#held] = 0x80;
    if (this.#held >= 56) {
      this.#compress();
      this.#block.fill(0);
    }
    this.#view.setBigUint64(56, 8n * BigInt(bytes));
    this.#compress();
    return Array.from(this.#state, (word) => word.toString(16).padStart(8, "0")).join("");
  }

  #compress(): void {
    this.#held = 0;
    const w = this.#words;
    for (let t = 0; t < 16; t++) w[t] = this.#view.getUint32(4 * t);
    for (let t = 16; t < 64; t++) {
      const early = at(w, t - 15);
      const late = at(w, t - 2);
      const first = turned(early, 7) ^ turned(early, 18) ^ (early >>> 3);
      const second = turned(late, 17) ^ turned(late, 19) ^ (late >>> 10);
      w[t] = at(w, t - 16) + first + at(w, t - 7) + second;
    }
    let [a, b, c, d, e, f, g, h] = this.#state as unknown as [number, number, number, number, number, number, number, number];
    for (let t = 0; t < 64; t++) {
      const choice = (e & f) ^ (~e & g);
      const first = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + choice + at(K, t) + at(w, t)) | 0;
      const majority = (a & b) ^ (a & c) ^ (b & c);
      const second = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + majority) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    for (const [place, word] of [a, b, c, d, e, f, g, h].entries()) this.#state[place] = at(this.#state, place) + word;
  }
}

function turned(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits));
}

function at(words: Uint32Array, place: number): number {
  return words[place] as number;
}
