// The run file's section `guard`, and what the journal has of it.
#include "trainer/contract/guard_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer {
namespace {

contract::RunConfig guard_of(const std::string& more) {
  return contract::parse_run_config("model: {preset: tiny}\ndata: {path: data}\nsteps: 10\n" + more,
                                    "run.yaml");
}

TEST(GuardConfig, IsReadAndWrittenBack) {
  const contract::GuardConfig standard = guard_of("").guard;
  EXPECT_TRUE(standard.alarms);
  EXPECT_EQ(standard.replay_every, 200);
  EXPECT_EQ(standard.on_corruption, contract::OnCorruption::Stop);
  const contract::RunConfig other =
      guard_of("guard: {alarms: false, replay_every: 7, on_corruption: warn}\n");
  EXPECT_EQ(other.guard, (contract::GuardConfig{false, 7, contract::OnCorruption::Warn}));
  const std::string text = contract::to_json(other);
  EXPECT_EQ(nlohmann::json::parse(text).at("guard").dump(),
            R"({"alarms":false,"on_corruption":"warn","replay_every":7})");
  EXPECT_EQ(contract::parse_run_config(text, "run.json").guard, other.guard);
}

TEST(GuardConfig, RefusesWhatCannotBe) {
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"guard: {replay_every: -1}", "guard.replay_every: is -1; use 0 to 1000000000"},
           {"guard: {replay_every: 1000000001}", "guard.replay_every: is 1000000001"},
           {"guard: {replay_every: soon}", "guard.replay_every: expected"},
           {"guard: {alarms: 2}", "guard.alarms: expected"},
           {"guard: {on_corruption: pray}", "guard.on_corruption: expected one of stop, warn"},
           {"guard: {replays: 1}", "guard.replays: unknown key"},
           {"guard: 5", "guard: expected a mapping"}}) {
    try {
      (void)guard_of(text + "\n");
      ADD_FAILURE() << text << " is taken";
    } catch (const base::Error& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  }
}

template <typename Record>
Record there_and_back(const Record& record) {
  const std::string line = contract::to_line({7, 1795261682.5, 12.5, record});
  const auto parsed = contract::parse_record(std::string_view(line).substr(0, line.size() - 1));
  EXPECT_TRUE(parsed && std::holds_alternative<Record>(parsed->body)) << line;
  return parsed ? std::get<Record>(parsed->body) : Record{};
}

TEST(GuardJournal, TellsOfAnAlarm) {
  const auto told = there_and_back(contract::AlarmRecord{61, "update_ratio", "layer 3", 0.03125,
                                                         0.001, 12.5, "The update of layer 3 …"});
  EXPECT_EQ(told.step, 61);
  EXPECT_EQ(told.kind, "update_ratio");
  EXPECT_EQ(told.layer, "layer 3");
  EXPECT_EQ(told.value, 0.03125);
  EXPECT_EQ(told.usual, 0.001);
  EXPECT_EQ(told.deviation, 12.5);
  EXPECT_EQ(told.message, "The update of layer 3 …");
}

TEST(GuardJournal, TellsOfAnotherLossScale) {
  const auto told = there_and_back(contract::LossScaleRecord{
      3, 65536, 32768, "overflow", "a.weight", "gradient", "layer 0", 2, "It overflowed."});
  EXPECT_EQ(told.step, 3);
  EXPECT_EQ(told.from, 65536);
  EXPECT_EQ(told.to, 32768);
  EXPECT_EQ(told.why, "overflow");
  EXPECT_EQ(told.tensor, "a.weight");
  EXPECT_EQ(told.quantity, "gradient");
  EXPECT_EQ(told.layer, "layer 0");
  EXPECT_EQ(told.rank, 2);
  EXPECT_EQ(told.message, "It overflowed.");
}

TEST(GuardJournal, TellsOfCorruption) {
  contract::CorruptionRecord record;
  record.step = 400;
  record.rank = -1;
  record.suspects = {1, 3};
  record.host = "node-1, node-2";
  record.device = "CPU";
  record.quantity = "gradient";
  record.tensor = "b.weight";
  record.layer = "the head";
  record.tensors = 12;
  record.checked_step = 212;
  record.action = "warn";
  record.message = "Silent corruption";
  const auto told = there_and_back(record);
  EXPECT_EQ(told.step, 400);
  EXPECT_EQ(told.rank, -1);
  EXPECT_EQ(told.suspects, record.suspects);
  EXPECT_EQ(told.host, record.host);
  EXPECT_EQ(told.device, record.device);
  EXPECT_EQ(told.quantity, record.quantity);
  EXPECT_EQ(told.tensor, record.tensor);
  EXPECT_EQ(told.layer, record.layer);
  EXPECT_EQ(told.tensors, 12);
  EXPECT_EQ(told.checked_step, 212);
  EXPECT_EQ(told.action, "warn");
  EXPECT_EQ(told.message, record.message);
  for (const char* bad : {R"("step":-1)", R"("checked_step":-1)", R"("suspects":5)",
                          R"("suspects":[0.5])", R"("rank":"two")"}) {
    EXPECT_FALSE(contract::parse_record(std::string(R"({"type":"corruption",)") + bad + "}"))
        << bad;
  }
}

TEST(LayerOf, ATensor) {
  for (const auto& [tensor, layer] : std::vector<std::pair<std::string, std::string>>{
           {"bert.encoder.layer.0.attention.self.query.weight", "layer 0"},
           {"bert.encoder.layer.23.output.LayerNorm.bias", "layer 23"},
           {contract::kWordEmbedding, "the embeddings"},
           {"bert.embeddings.LayerNorm.bias", "the embeddings"},
           {"bert.pooler.dense.weight", "the head"},
           {"cls.predictions.bias", "the head"},
           {"qa_outputs.weight", "the head"}}) {
    EXPECT_EQ(contract::layer_of(tensor), layer) << tensor;
  }
}

}  // namespace
}  // namespace regatta::trainer
