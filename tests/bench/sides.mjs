// Both sides of a comparison, each in a process of its own that prints one JSON.
import {spawnSync} from 'node:child_process';

export function run(command, args, environment) {
  const result = spawnSync(command, args, {
    encoding: 'utf8', env: {...process.env, ...environment}, stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (result.status !== 0) {
    process.stderr.write(`${command} failed (status ${result.status}); see above\n`);
    process.exit(1);
  }
  return JSON.parse(result.stdout);
}

export const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
