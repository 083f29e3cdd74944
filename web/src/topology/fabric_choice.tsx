import type { ComponentChildren } from "preact";
import { withoutEscapes } from "../base/format";
import { setQuery, useRoute } from "../base/route";
import type { Fabric } from "./fabric";
import type { Known } from "./topology_api";

// Which fabric the address names, or else the largest; and the choice, where there are several.
export function useFabric(fabrics: Fabric[]): {
  fabric: Fabric | undefined;
  choice: ComponentChildren;
} {
  const asked = useRoute().query.get("fabric");
  const fabric = fabrics.find(({ id }) => id === asked) ?? fabrics[0];
  const choice = fabrics.length > 1 && (
    <label class="fabric-choice">
      Fabric{" "}
      <select
        value={fabric?.id}
        onChange={(event) => setQuery({ fabric: event.currentTarget.value })}
      >
        {fabrics.map(({ id, name }) => (
          <option key={id} value={id}>
            {withoutEscapes(name)}
          </option>
        ))}
      </select>
    </label>
  );
  return { fabric, choice };
}

// What stands in place of a fabric that is not here.
export function NoFabric({ machines, failure }: { machines: Known; failure: string | null }) {
  if (machines === null) {
    return (
      <p class="nothing">
        The fabric is not known: start the controller with <code>--cluster FILE</code>.
      </p>
    );
  }
  if (failure != null) {
    return (
      <p class="nothing" role="status">
        The fabric cannot be loaded: {failure}. Trying again.
      </p>
    );
  }
  return <p class="loading">Loading the fabric…</p>;
}
