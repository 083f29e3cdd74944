// Where the focus goes when what had it is no longer there.
export function focusMain() {
  document.getElementById("main")?.focus({ preventScroll: true });
}
