export function EventsView({ query }: { query: URLSearchParams }) {
  return <p class="nothing">events {query.toString()}</p>;
}
