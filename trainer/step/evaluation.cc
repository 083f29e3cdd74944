#include "trainer/step/evaluation.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "base/error.h"
#include "trainer/ranks/rank_agreement.h"

namespace regatta::trainer::step {
namespace {

using model::kCompute;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Packs samples r, r + R, … and gives each pack, with its samples' numbers, to `body`.
void for_each_pack(const std::vector<samples::Sample>& samples, int rank, int ranks,
                   const std::function<void(const samples::PackedBatch&,
                                            const std::vector<std::int32_t>&)>& body) {
  std::vector<samples::Sample> chunk;
  std::vector<std::int32_t> ordinals;
  std::int64_t tokens = 0;
  const auto flush = [&] {
    if (chunk.empty()) return;
    body(samples::collate(chunk, ordinals), ordinals);
    chunk.clear();
    ordinals.clear();
    tokens = 0;
  };
  for (std::size_t i = static_cast<std::size_t>(rank); i < samples.size();
       i += static_cast<std::size_t>(ranks)) {
    chunk.push_back(samples[i]);
    ordinals.push_back(static_cast<std::int32_t>(i));
    tokens += static_cast<std::int64_t>(samples[i].ids.size());
    if (tokens >= kEvaluationTokens) flush();
  }
  flush();
}

void go_forward(model::Bert& model, const StagedForward& forward,
                const samples::PackedBatch& batch) {
  if (forward.run) return forward.run(batch);
  model.upload(batch, 0, {});
  model.forward(model::Mode::Evaluation);
}

// What a task's metrics are on the way from rank 0: nothing but a journal's line.
contract::EvalRecord from_line(const std::string& line) {
  const std::optional<contract::JournalRecord> record = contract::parse_record(line);
  base::check(record && std::holds_alternative<contract::EvalRecord>(record->body),
              "rank 0 sends a record");
  return std::get<contract::EvalRecord>(record->body);
}

}  // namespace

EvaluationSums evaluate_share(device::Device& device, model::Bert& model,
                              const std::vector<samples::Sample>& samples, int rank, int ranks,
                              const StagedForward& forward) {
  EvaluationSums totals{};
  const device::HostMemory results(device, 4 * static_cast<std::int64_t>(totals.size()));
  model.reset_statistics();
  for_each_pack(samples, rank, ranks, [&](const samples::PackedBatch& batch, const auto&) {
    go_forward(model, forward, batch);
    if (!forward.has_results) return;
    model.read_statistics(results.floats());
    model.reset_statistics();
    device.wait_host(device.record(kCompute));
    for (std::size_t i = 0; i < totals.size(); ++i) {
      totals[i] += static_cast<double>(results.floats()[i]);
    }
  });
  return totals;
}

contract::EvalRecord evaluation_of(const EvaluationSums& sums, std::int64_t step) {
  contract::EvalRecord record;
  record.step = step;
  record.mlm_loss = sums[0] / std::max(1.0, sums[2]);
  record.mlm_accuracy = sums[1] / std::max(1.0, sums[2]);
  record.nsp_accuracy = sums[4] / std::max(1.0, sums[5]);
  record.samples = static_cast<std::int64_t>(sums[5]);
  return record;
}

tasks::JudgedSet::Logits logits_share(device::Device& device, model::Bert& model,
                                      const std::vector<samples::Sample>& samples, int rank,
                                      int ranks, const StagedForward& forward) {
  tasks::JudgedSet::Logits logits;
  const auto outputs = static_cast<std::size_t>(contract::outputs_of(model.shape()));
  const bool of_tokens = model.shape().task == contract::Task::QuestionAnswering;
  for_each_pack(samples, rank, ranks, [&](const samples::PackedBatch& batch, const auto&) {
    const std::int64_t rows = of_tokens ? batch.tokens() : batch.samples();
    const device::HostMemory results(device, 4 * rows * static_cast<std::int64_t>(outputs));
    go_forward(model, forward, batch);
    if (!forward.has_results) return;
    model.read_logits(results.floats());
    device.wait_host(device.record(kCompute));
    const float* next = results.floats();
    for (std::size_t i = 0; i + 1 < batch.cumulative.size(); ++i) {
      const auto tokens = static_cast<std::size_t>(batch.cumulative[i + 1] - batch.cumulative[i]);
      const std::size_t count = outputs * (of_tokens ? tokens : 1);
      logits.emplace_back(next, next + count);
      next += count;
    }
  });
  model.reset_statistics();
  return logits;
}

tasks::JudgedSet::Logits gather_logits(ranks::HostCollectives& host,
                                       const tasks::JudgedSet::Logits& share, std::size_t samples,
                                       const SharedBy& by) {
  // Rank 0 knows how many logits each sample has only from what comes: counts go before them.
  std::vector<std::byte> mine;
  const auto put = [&](const void* from, std::size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(from);
    mine.insert(mine.end(), begin, begin + bytes);
  };
  for (const std::vector<float>& logits : share) {
    const auto count = static_cast<std::uint32_t>(logits.size());
    put(&count, sizeof count);
    put(logits.data(), sizeof(float) * logits.size());
  }
  ranks::Parcels to(static_cast<std::size_t>(host.ranks()));
  to[0] = std::move(mine);
  const ranks::Parcels parcels = host.all_to_all(to);
  if (host.rank() != 0) return {};
  tasks::JudgedSet::Logits all(samples);
  const auto first = static_cast<std::size_t>(by.first);
  const auto each = static_cast<std::size_t>(by.shares);
  const std::size_t shares = (parcels.size() - first) * each;
  std::span<const std::byte> left;
  for (std::size_t part = 0; part < shares; ++part) {
    if (part % each == 0) left = parcels[first + part / each];
    for (std::size_t sample = part; sample < samples; sample += shares) {
      std::uint32_t count = 0;
      base::check(left.size() >= sizeof count, "each sample's logits come");
      std::memcpy(&count, left.data(), sizeof count);
      left = left.subspan(sizeof count);
      base::check(left.size() >= sizeof(float) * count, "each sample's logits come");
      all[sample].resize(count);
      std::memcpy(all[sample].data(), left.data(), sizeof(float) * count);
      left = left.subspan(sizeof(float) * count);
    }
  }
  return all;
}

contract::EvalRecord judged(const tasks::JudgedSet& set, const tasks::JudgedSet::Logits& logits,
                            std::int64_t step) {
  contract::EvalRecord record;
  record.step = step;
  record.mlm_accuracy = record.mlm_loss = record.nsp_accuracy = kNone;
  record.samples = static_cast<std::int64_t>(set.samples().size());
  record.metrics = set.score(logits);
  return record;
}

contract::EvalRecord judge(ranks::HostCollectives& host, const tasks::JudgedSet& set,
                           const tasks::JudgedSet::Logits& share, std::int64_t step,
                           const SharedBy& by) {
  const tasks::JudgedSet::Logits all = gather_logits(host, share, set.samples().size(), by);
  contract::JournalRecord record;
  ranks::run_on_all_ranks(host, [&] {
    if (host.rank() != 0) return;
    record.body = judged(set, all, step);
  });
  std::string line = host.rank() == 0 ? contract::to_line(record) : "";
  line = ranks::text_of_rank_0(host, line);
  line.pop_back();  // its '\n'
  return from_line(line);
}

}  // namespace regatta::trainer::step
