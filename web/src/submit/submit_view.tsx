export function SubmitView({ query }: { query: URLSearchParams }) {
  return <p class="nothing">submit {query.toString()}</p>;
}
