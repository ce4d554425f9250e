// Times and sizes as text. Times are in the browser's zone, as 24 hours.
import type { Timestamp } from "@bufbuild/protobuf/wkt";

/** millis returns a timestamp in milliseconds since 1970, or undefined if it is unset. */
export function millis(at: Timestamp | undefined): number | undefined {
  return at ? Number(at.seconds) * 1000 + at.nanos / 1e6 : undefined;
}

const two = (value: number) => String(value).padStart(2, "0");

/** clock returns "15:04:05", with milliseconds if fine is set, and with the date if that isn't today. */
export function clock(at: number | undefined, fine = false): string {
  if (at === undefined) return "";
  const date = new Date(at);
  let text = two(date.getHours()) + ":" + two(date.getMinutes()) + ":" + two(date.getSeconds());
  if (fine) text += "." + String(date.getMilliseconds()).padStart(3, "0");
  if (date.toDateString() !== new Date().toDateString()) text = day(at) + " " + text;
  return text;
}

/** day returns "2006-01-02". */
export function day(at: number): string {
  const date = new Date(at);
  return date.getFullYear() + "-" + two(date.getMonth() + 1) + "-" + two(date.getDate());
}

/** full returns the date, the time and the zone's offset: the text of tooltips. */
export function full(at: number | undefined): string {
  if (at === undefined) return "";
  const offset = -new Date(at).getTimezoneOffset();
  const zone = (offset < 0 ? "-" : "+") + two(Math.floor(Math.abs(offset) / 60)) + ":" + two(Math.abs(offset) % 60);
  const date = new Date(at);
  return day(at) + " " + two(date.getHours()) + ":" + two(date.getMinutes()) + ":" + two(date.getSeconds()) + zone;
}

/** span returns a duration as kubectl prints ages: "42s", "5m12s", "3h7m", "9d". */
export function span(ms: number): string {
  let s = Math.max(0, Math.floor(ms / 1000));
  if (s < 120) return s + "s";
  let m = Math.floor(s / 60);
  s -= m * 60;
  if (m < 10) return m + "m" + (s ? s + "s" : "");
  if (m < 180) return m + "m";
  let h = Math.floor(m / 60);
  m -= h * 60;
  if (h < 8) return h + "h" + (m ? m + "m" : "");
  if (h < 48) return h + "h";
  const d = Math.floor(h / 24);
  h -= d * 24;
  if (d < 8) return d + "d" + (h ? h + "h" : "");
  return d + "d";
}

/** age returns how long ago a time was, or "" if it is unset. */
export function age(at: number | undefined, now: number): string {
  return at === undefined ? "" : span(now - at);
}

/** bytes returns a size with a binary unit: "12 Ki", "3.4 Mi". */
export function bytes(value: number): string {
  const units = ["B", "Ki", "Mi", "Gi", "Ti", "Pi"];
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return (unit === 0 || Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(1)) + " " + units[unit];
}

/** cores returns a number of CPUs: "250m", "1.25". */
export function cores(value: number): string {
  if (value >= 10) return value.toFixed(1);
  if (value >= 1) return value.toFixed(2);
  return (value * 1000).toFixed(value < 0.01 ? 1 : 0) + "m";
}
