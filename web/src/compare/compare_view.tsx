export function CompareView({ query }: { query: URLSearchParams }) {
  return <p class="nothing">compare {query.toString()}</p>;
}
