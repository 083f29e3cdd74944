export function SettingsView({ query }: { query: URLSearchParams }) {
  return <p class="nothing">settings {query.toString()}</p>;
}
