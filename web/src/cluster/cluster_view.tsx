export function ClusterView({ query }: { query: URLSearchParams }) {
  return <p class="nothing">cluster {query.toString()}</p>;
}
