/**
 * SHA-256 (FIPS 180-4) of bytes that come in pieces.
 *
 * Web Crypto takes all bytes at once, and is not there on pages without TLS; a snapshot may be larger than memory.
 */

const K = new Int32Array(64);
const START = new Int32Array(8);

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
  readonly #words = new Int32Array(64);
  readonly #block = new Uint8Array(64);
  readonly #view = new DataView(this.#block.buffer);
  #held = 0;
  #bytes = 0;

  /** Add a piece. */
  update(piece: Uint8Array): this {
    this.#bytes += piece.length;
    const whole = new DataView(piece.buffer, piece.byteOffset, piece.length);
    for (let at = 0; at < piece.length;) {
      // Whole blocks are read where they are.
      if (this.#held === 0 && piece.length - at >= 64) {
        this.#compress(whole, at);
        at += 64;
        continue;
      }
      const taken = Math.min(64 - this.#held, piece.length - at);
      this.#block.set(piece.subarray(at, at + taken), this.#held);
      this.#held += taken;
      at += taken;
      if (this.#held === 64) this.#compress(this.#view, 0);
    }
    return this;
  }

  /** The digest of all pieces, in hexadecimal. Nothing can be added behind it. */
  hex(): string {
    const bytes = this.#bytes;
    this.#block.fill(0, this.#held);
    this.#block[this.#held] = 0x80;
    if (this.#held >= 56) {
      this.#compress(this.#view, 0);
      this.#block.fill(0);
    }
    this.#view.setBigUint64(56, 8n * BigInt(bytes));
    this.#compress(this.#view, 0);
    return Array.from(this.#state, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
  }

  /**
   * One block, section 6.2.2; the letters are those of the standard.
   *
   * Sums are cut to 32 bits one by one and nothing is destructured, so that it stays integers: 195 MB/s in place of 70.
   */
  #compress(view: DataView, at: number): void {
    this.#held = 0;
    const state = this.#state;
    const w = this.#words;
    const k = K;
    for (let t = 0; t < 16; t++) w[t] = view.getInt32(at + 4 * t);
    for (let t = 16; t < 64; t++) {
      const early = w[t - 15]!;
      const late = w[t - 2]!;
      const first = ((early >>> 7) | (early << 25)) ^ ((early >>> 18) | (early << 14)) ^ (early >>> 3);
      const second = ((late >>> 17) | (late << 15)) ^ ((late >>> 19) | (late << 13)) ^ (late >>> 10);
      w[t] = (((w[t - 16]! + first) | 0) + ((w[t - 7]! + second) | 0)) | 0;
    }
    let a = state[0]!;
    let b = state[1]!;
    let c = state[2]!;
    let d = state[3]!;
    let e = state[4]!;
    let f = state[5]!;
    let g = state[6]!;
    let h = state[7]!;
    for (let t = 0; t < 64; t++) {
      const turned = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const first = (((((h + turned) | 0) + ((e & f) ^ (~e & g))) | 0) + ((k[t]! + w[t]!) | 0)) | 0;
      const other = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const second = (other + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + first) | 0;
      d = c;
      c = b;
      b = a;
      a = (first + second) | 0;
    }
    state[0]! += a;
    state[1]! += b;
    state[2]! += c;
    state[3]! += d;
    state[4]! += e;
    state[5]! += f;
    state[6]! += g;
    state[7]! += h;
  }
}
