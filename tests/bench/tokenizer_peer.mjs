// The tokenizer beside npm's `tokenizers` (Hugging Face's Rust build). tokenizer.sh calls
//   node tokenizer_peer.mjs compare PEER BENCH TEXT VOCAB_DIRECTORY ROUNDS BYTES
// which runs both sides in turn on the same bytes, each in a process of its own, and prints one JSON.
//   node tokenizer_peer.mjs measure PEER TEXT TOKENIZER_JSON BYTES
// is one run of the peer; RAYON_NUM_THREADS sets its threads.
import {closeSync, openSync, readFileSync, readSync} from 'node:fs';
import {createRequire} from 'node:module';
import {availableParallelism} from 'node:os';
import {join} from 'node:path';
import {fileURLToPath} from 'node:url';

import {median, run} from './sides.mjs';

const LINES_PER_BATCH = 4096;

function readLines(path, bytes) {
  const buffer = Buffer.alloc(bytes);
  const file = openSync(path, 'r');
  let filled = 0;
  for (let got = -1; got !== 0 && filled < bytes; filled += got) {
    got = readSync(file, buffer, filled, bytes - filled, null);
  }
  closeSync(file);
  return buffer.subarray(0, filled).toString('utf8').split('\n').filter((line) => line !== '');
}

async function encode(tokenizer, lines) {
  let tokens = 0;
  for (let begin = 0; begin < lines.length; begin += LINES_PER_BATCH) {
    const batch = lines.slice(begin, begin + LINES_PER_BATCH);
    const encodings = await tokenizer.encodeBatch(batch, {addSpecialTokens: false});
    for (const encoding of encodings) tokens += encoding.getLength();
  }
  return tokens;
}

// The ids stay on the native side: turning them into a JavaScript array is not counted.
async function measure(peer, text, model, bytes) {
  const {Tokenizer} = createRequire(join(peer, 'package.json'))('tokenizers');
  const tokenizer = Tokenizer.fromFile(model);
  tokenizer.disableTruncation();
  tokenizer.disablePadding();
  const lines = readLines(text, bytes);
  await encode(tokenizer, lines.slice(0, Math.floor(lines.length / 8)));  // warm
  const size = lines.reduce((sum, line) => sum + Buffer.byteLength(line), 0);
  const start = process.hrtime.bigint();
  const before = process.cpuUsage();
  const tokens = await encode(tokenizer, lines);
  const used = process.cpuUsage(before);
  const seconds = Number(process.hrtime.bigint() - start) * 1e-9;
  const cpu = (used.user + used.system) * 1e-6;
  return {
    threads: Number(process.env.RAYON_NUM_THREADS), bytes: size, tokens, seconds, cpu_seconds: cpu,
    mb_per_second: size / seconds * 1e-6, mb_per_cpu_second: size / cpu * 1e-6,
  };
}

function summary(runs) {
  return {
    mb_per_second: Math.max(...runs.map((r) => r.mb_per_second)),
    mb_per_cpu_second: Math.max(...runs.map((r) => r.mb_per_cpu_second)),
    tokens: runs[0].tokens, bytes: runs[0].bytes,
  };
}

function compare(peer, bench, text, vocabulary, rounds, bytes) {
  const self = fileURLToPath(import.meta.url);
  const results = [];
  for (const threads of [1, 2]) {
    const ours = [], theirs = [];
    for (let round = 0; round < rounds; ++round) {  // in turn, so that both see the same machine
      ours.push(run(bench, [text, join(vocabulary, 'vocab.txt'), String(threads), String(bytes)]));
      theirs.push(run(process.execPath,
          [self, 'measure', peer, text, join(vocabulary, 'tokenizer.json'), String(bytes)],
          {RAYON_NUM_THREADS: String(threads), TOKENIZERS_PARALLELISM: String(threads > 1)}));
    }
    results.push({
      threads, regatta: summary(ours), peer: summary(theirs),
      ratio: median(ours.map((r, i) => r.mb_per_second / theirs[i].mb_per_second)),
      ratio_per_cpu_second:
          median(ours.map((r, i) => r.mb_per_cpu_second / theirs[i].mb_per_cpu_second)),
    });
  }
  const {version} = JSON.parse(
      readFileSync(join(peer, 'node_modules/tokenizers/package.json'), 'utf8'));
  return {
    benchmark: 'tokenizer', peer: `tokenizers ${version} (npm), encodeBatch`, rounds,
    cores: availableParallelism(), speed: 'best round', ratios: 'median of rounds', results,
  };
}

const [mode, ...rest] = process.argv.slice(2);
if (mode === 'measure' && rest.length === 4) {
  const [peer, text, model, bytes] = rest;
  console.log(JSON.stringify(await measure(peer, text, model, Number(bytes))));
} else if (mode === 'compare' && rest.length === 6) {
  const [peer, bench, text, vocabulary, rounds, bytes] = rest;
  console.log(JSON.stringify(
      compare(peer, bench, text, vocabulary, Number(rounds), Number(bytes)), null, 2));
} else {
  process.stderr.write('usage: tests/bench/tokenizer.sh TEXT VOCAB_DIRECTORY\n');
  process.exit(2);
}
