export function NodesView({ query }: { query: URLSearchParams }) {
  return <p class="nothing">nodes {query.toString()}</p>;
}
