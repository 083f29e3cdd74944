import * as show from "../base/format";
import { LongText } from "../parts/long_text";
import { factsOf } from "./facts";

const kMostRows = 300;

// Keys and values of one part, as the file has them.
export function FactTable({ part, name }: { part: unknown; name: string }) {
  const facts = factsOf(part);
  const left = facts.length - kMostRows;
  if (facts.length === 0) return <p class="small">Nothing is told.</p>;
  return (
    <>
      <table class="env-facts">
        <caption class="visually-hidden">{name}</caption>
        <colgroup>
          <col class="env-key" />
          <col />
        </colgroup>
        <thead class="visually-hidden">
          <tr>
            <th scope="col">Key</th>
            <th scope="col">Value</th>
          </tr>
        </thead>
        <tbody>
          {facts.slice(0, kMostRows).map(({ key, text }, index) => (
            <tr key={index}>
              <th scope="row">
                <LongText text={key} />
              </th>
              <td>
                {text == null ? (
                  <span class="small">not shown</span>
                ) : text === "" ? (
                  <span class="small">empty</span>
                ) : (
                  <LongText text={text} />
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {left > 0 && (
        <p class="small">
          {show.count(left)} more {left === 1 ? "key is" : "keys are"} left out here; the command
          prints all.
        </p>
      )}
    </>
  );
}
