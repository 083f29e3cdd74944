// Labelled windows of questions beside npm's `tokenizers` (Hugging Face's Rust build). features.sh calls
//   node features_peer.mjs compare PEER BENCH VOCAB_DIRECTORY ROUNDS THREADS FILE…
// which runs both sides in turn on each file, each in a process of its own, and prints one JSON.
//   node features_peer.mjs measure PEER FILE TOKENIZER_JSON
// is one run of the peer; UV_THREADPOOL_SIZE sets the threads that encode, beside the one that labels.
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {availableParallelism} from 'node:os';
import {basename, join} from 'node:path';
import {fileURLToPath} from 'node:url';

import {median, run} from './sides.mjs';

const QUESTIONS_PER_BATCH = 1000;  // as datasets.map() takes them
const MAX_LENGTH = 384;
const STRIDE = 128;

// Places count code points, as the file's and the tokenizer's do.
function readQuestions(path) {
  const questions = [];
  for (const article of JSON.parse(readFileSync(path, 'utf8')).data) {
    for (const {context, qas} of article.paragraphs) {
      for (const {question, answers} of qas) {
        const begin = answers.length > 0 ? answers[0].answer_start : -1;
        const end = answers.length > 0 ? begin + [...answers[0].text].length : -1;
        questions.push({question, context, begin, end});
      }
    }
  }
  return questions;
}

// First and last token of the answer, 0 and 0 where the window has not all of it: from the offsets of
// the context's tokens, which are those of segment 1 without the last [SEP].
function answerTokens(offsets, typeIds, {begin, end}) {
  let first = typeIds.indexOf(1), last = offsets.length - 2;
  if (begin < 0 || first > last || offsets[first][0] > begin || offsets[last][1] < end) return [0, 0];
  while (first <= last && offsets[first][0] <= begin) ++first;
  while (last >= 0 && offsets[last][1] >= end) --last;
  return [first - 1, last + 1];
}

// The binding's encodeBatch takes single texts only, so pairs are encoded one by one, all of a batch
// under way at once.
const encode = (tokenizer, batch) =>
  Promise.all(batch.map(({question, context}) => tokenizer.encode(question, context)));

const secondsSince = (start) => Number(process.hrtime.bigint() - start) * 1e-9;

// The next batch is encoded while one is labelled, so that no thread waits. With `label` null the
// windows are only counted.
async function features(tokenizer, questions, label) {
  const made = {windows: 0, windows_with_answer: 0, tokens: 0};
  const batches = [];
  for (let begin = 0; begin < questions.length; begin += QUESTIONS_PER_BATCH) {
    batches.push(questions.slice(begin, begin + QUESTIONS_PER_BATCH));
  }
  let next = encode(tokenizer, batches[0]);
  for (let i = 0; i < batches.length; ++i) {
    const encodings = await next;
    if (i + 1 < batches.length) next = encode(tokenizer, batches[i + 1]);
    for (let j = 0; j < encodings.length; ++j) {
      for (const window of [encodings[j], ...encodings[j].getOverflowing()]) {
        ++made.windows;
        if (!label) continue;
        const [first, last] = label(window.getOffsets(), window.getTypeIds(), batches[i][j]);
        if (first <= last && last > 0) ++made.windows_with_answer;
        made.tokens += window.getIds().length;
      }
    }
  }
  return made;
}

async function measure(peer, file, model) {
  const {Tokenizer} = createRequire(join(peer, 'package.json'))('tokenizers');
  const tokenizer = Tokenizer.fromFile(model);
  tokenizer.setTruncation(MAX_LENGTH, {strategy: 'OnlySecond', stride: STRIDE});
  tokenizer.disablePadding();
  const questions = readQuestions(file);
  const some = questions.slice(0, Math.ceil(questions.length / 8));
  await features(tokenizer, some, answerTokens);  // warm
  const encodingStart = process.hrtime.bigint();
  await features(tokenizer, some, null);
  const encodingSeconds = secondsSince(encodingStart);
  const start = process.hrtime.bigint();
  const before = process.cpuUsage();
  const made = await features(tokenizer, questions, answerTokens);
  const used = process.cpuUsage(before);
  const seconds = secondsSince(start);
  return {
    threads: Number(process.env.UV_THREADPOOL_SIZE), questions: questions.length, ...made, seconds,
    cpu_seconds: (used.user + used.system) * 1e-6, questions_per_second: questions.length / seconds,
    encoding_only_questions_per_second: some.length / encodingSeconds,
  };
}

const best = (runs) => runs.reduce((a, b) => (b.questions_per_second > a.questions_per_second ? b : a));

function compareOn(file, {peer, bench, vocabulary, rounds, threads}) {
  const self = fileURLToPath(import.meta.url);
  const ours = [], theirs = [];
  for (let round = 0; round < rounds; ++round) {  // in turn, so that both see the same machine
    ours.push(run(bench, [file, join(vocabulary, 'vocab.txt'), String(threads)]));
    theirs.push(run(process.execPath, [self, 'measure', peer, file, join(vocabulary, 'tokenizer.json')],
        {UV_THREADPOOL_SIZE: String(threads)}));
  }
  const ratio = (key) => median(ours.map((r, i) => r.questions_per_second / theirs[i][key]));
  return {
    file: basename(file), regatta: best(ours), peer: best(theirs), ratio: ratio('questions_per_second'),
    ratio_with_reading_ours:
        median(ours.map((r, i) => theirs[i].seconds / (r.seconds + r.read_seconds))),
    ratio_of_encoding_only: ratio('encoding_only_questions_per_second'),
    ratio_per_cpu_second: median(ours.map((r, i) => theirs[i].cpu_seconds / r.cpu_seconds)),
    windows_to_peers: ours[0].windows / theirs[0].windows,
  };
}

function compare(options, files) {
  const results = files.map((file) => compareOn(file, options));
  const {version} = JSON.parse(
      readFileSync(join(options.peer, 'node_modules/tokenizers/package.json'), 'utf8'));
  return {
    benchmark: 'features', peer: `tokenizers ${version} (npm), encode(question, context)`,
    rounds: options.rounds, threads: options.threads, cores: availableParallelism(),
    max_length: MAX_LENGTH, stride: STRIDE, figures: 'best round', ratios: 'median of rounds',
    windows: 'stride: regatta begins a window every 128 pieces, as Google; the peer has 128 in two windows',
    results,
  };
}

const [mode, ...rest] = process.argv.slice(2);
if (mode === 'measure' && rest.length === 3) {
  console.log(JSON.stringify(await measure(...rest)));
} else if (mode === 'compare' && rest.length > 5) {
  const [peer, bench, vocabulary, rounds, threads, ...files] = rest;
  const options = {peer, bench, vocabulary, rounds: Number(rounds), threads: Number(threads)};
  console.log(JSON.stringify(compare(options, files), null, 2));
} else {
  process.stderr.write('usage: tests/bench/features.sh VOCAB_DIRECTORY FILE…\n');
  process.exit(2);
}
