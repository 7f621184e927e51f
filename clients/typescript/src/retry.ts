/**
 * When a request is sent again, and after which pause: the rule of the Python client.
 *
 * Two questions are kept apart. *May* it be repeated: a request whose work may have been done is only sent again when doing it twice is
 * the same as doing it once, later ("always"); others only when it is certain that nothing was done ("if-not-done"); a body that can be
 * read once is never sent again. *Is it worth it*: only failures that pass.
 */
import { ApiError, InvalidArgument, TransportError, type KinbinClientError } from "./errors.js";

/** Whether a request may be sent again when it is not known what became of the first. */
export type Repeat = "always" | "if-not-done" | "never";

/** How often and after which pauses a failed request is sent again. Times are milliseconds. */
export interface Retry {
  /** The first one counts: 1 means no retries. Default 4. */
  attempts?: number;
  /** The n-th pause is drawn between half of and the whole of `firstPause * 2 ** (n - 1)`. Default 200. */
  firstPause?: number;
  /** The most that such a pause takes. Default 10,000. */
  longestPause?: number;
  /** A Retry-After of the service is waited out in full before the pause, unless it is longer than this. Default 60,000. */
  longestRetryAfter?: number;
}

const DEFAULTS: Required<Retry> = { attempts: 4, firstPause: 200, longestPause: 10_000, longestRetryAfter: 60_000 };

/** Statuses after which the same request may succeed. */
const PASSING = new Set([408, 429, 502, 503, 504]);
/** The ones of them by which the service itself says that it did not begin ... */
const REFUSED_BEFORE_WORK = new Set([408, 429, 503]);
/** ... except with these codes: nothing was acknowledged, which is less than nothing was done. */
const MAYBE_DONE_CODES = new Set(["storage_busy", "outcome_unknown"]);
/** Codes after which the same request would take as long again. */
const NOT_WORTH_IT = new Set(["search_deadline"]);

/** The rule with its defaults; InvalidArgument for numbers that make none. */
export function checkedRetry(given: Retry | undefined, base: Required<Retry> = DEFAULTS): Required<Retry> {
  const rule = { ...base, ...given };
  if (!(Number.isInteger(rule.attempts) && rule.attempts >= 1)) {
    throw new InvalidArgument(`attempts of retry counts the first attempt too: at least 1, not ${rule.attempts}`);
  }
  if (!(Math.min(rule.firstPause, rule.longestPause, rule.longestRetryAfter) >= 0)) {
    throw new InvalidArgument("the pauses of retry are numbers of milliseconds from 0 on");
  }
  return rule;
}

/** Milliseconds to wait after so many failures (1, 2, ...); null: give up. `draw` is random in [0, 1). */
export function pauseOf(rule: Required<Retry>, failures: number, retryAfter: number | null, draw: number): number | null {
  if (failures >= rule.attempts) return null;
  const jittered = Math.min(rule.firstPause * 2 ** Math.min(failures - 1, 60), rule.longestPause) * (0.5 + 0.5 * draw);
  if (retryAfter === null) return jittered;
  return retryAfter > rule.longestRetryAfter ? null : retryAfter + jittered;
}

/** Whether sending the request again is safe, and may help. */
export function mayRepeat(error: KinbinClientError, repeat: Repeat): boolean {
  if (repeat === "never") return false;
  if (error instanceof TransportError) return repeat === "always" || !error.outcomeUnknown;
  if (!(error instanceof ApiError) || !PASSING.has(error.status) || (error.code !== null && NOT_WORTH_IT.has(error.code))) return false;
  const refused = error.code !== null && REFUSED_BEFORE_WORK.has(error.status) && !MAYBE_DONE_CODES.has(error.code);
  return repeat === "always" || refused;
}

/** The milliseconds of a Retry-After header, which holds seconds or a date; null if it holds neither. */
export function retryAfterOf(value: string | null, now: number = Date.now()): number | null {
  if (value === null) return null;
  if (/^\s*\d+\s*$/.test(value)) return 1000 * Number(value);
  const when = Date.parse(value);
  return Number.isNaN(when) ? null : Math.max(0, when - now);
}
