// An Idempotency-Key: 128 random bits. crypto.randomUUID is for https and loopback only.
export function freshKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
