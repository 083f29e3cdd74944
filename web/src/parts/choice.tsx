// One of a few, all of them in sight.
export function Choice<Name extends string>({
  legend,
  group,
  of,
  chosen,
  onChoose,
}: {
  legend: string;
  group: string; // name of the buttons
  of: readonly (readonly [name: Name, title: string])[];
  chosen: Name;
  onChoose: (name: Name) => void;
}) {
  return (
    <fieldset class="choice">
      <legend>{legend}</legend>
      {of.map(([name, title]) => (
        <label key={name}>
          <input
            type="radio"
            name={group}
            checked={name === chosen}
            onChange={() => onChoose(name)}
          />
          {title}
        </label>
      ))}
    </fieldset>
  );
}
