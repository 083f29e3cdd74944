#include "trainer/contract/journal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace regatta::trainer {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename Body>
contract::JournalRecord record(Body body, std::int64_t sequence = 7) {
  return {sequence, 1795261682.125, 12.5, std::move(body)};
}

// Parses what to_line wrote; the test fails when it is not one good line.
contract::JournalRecord back(const contract::JournalRecord& original) {
  const std::string line = contract::to_line(original);
  EXPECT_FALSE(line.empty());
  EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
  const auto parsed = contract::parse_record(std::string_view(line).substr(0, line.size() - 1));
  EXPECT_TRUE(parsed.has_value()) << line;
  if (!parsed) return {};
  EXPECT_EQ(parsed->sequence, original.sequence);
  EXPECT_EQ(parsed->utc_seconds, original.utc_seconds);
  EXPECT_EQ(parsed->seconds, original.seconds);
  EXPECT_EQ(parsed->body.index(), original.body.index());
  EXPECT_EQ(contract::to_line(*parsed), line);
  return *parsed;
}

TEST(Journal, WritesOneLineOfKnownFields) {
  contract::EvalRecord eval;
  eval.step = 100;
  eval.mlm_accuracy = 0.1;
  eval.mlm_loss = 5;
  eval.samples = 64;
  eval.target_met = true;
  EXPECT_EQ(contract::to_line(record(eval)),
            R"({"sequence":7,"utc_seconds":1795261682.125,"seconds":12.5,"type":"eval",)"
            R"("step":100,"mlm_accuracy":0.1,"mlm_loss":5.0,"nsp_accuracy":0.0,"samples":64,)"
            R"("eval_seconds":0.0,"target_met":true})"
            "\n");
}

TEST(Journal, RoundTripsEveryRecord) {
  contract::StartRecord start;
  start.attempt = 3;
  start.execution = "0123456789abcdef";
  start.epoch = 4;
  start.process = 4711;
  start.host = "node-1";
  start.version = "0.1.0";
  start.parameters = 110'106'428;
  start.steps = 1000;
  start.batch_size = 256;
  start.first_step = 400;
  start.checkpoint = "step-0000000400-a";
  start.metric = "mlm_loss";
  start.target = 2.5;
  start.baseline = 0.06;
  const auto start_back = std::get<contract::StartRecord>(back(record(start)).body);
  EXPECT_EQ(start_back.execution, start.execution);
  EXPECT_EQ(start_back.parameters, start.parameters);
  EXPECT_EQ(start_back.target, 2.5);
  EXPECT_EQ(start_back.baseline, 0.06);
  start.target.reset();
  EXPECT_EQ(std::get<contract::StartRecord>(back(record(start)).body).target, std::nullopt);

  contract::StepRecord step;
  step.step = 1;
  step.loss = 10.5;
  step.seconds = 0.25;
  step.flops = 1.5e15;
  step.optimizer_seconds = 1e-9;
  const auto step_back = std::get<contract::StepRecord>(back(record(step)).body);
  EXPECT_EQ(step_back.seconds, 0.25) << "not confused with the record's own time";
  EXPECT_EQ(step_back.flops, 1.5e15);
  EXPECT_EQ(step_back.optimizer_seconds, 1e-9);

  contract::CheckpointRecord checkpoint;
  checkpoint.step = 100;
  checkpoint.name = "step-0000000100-a";
  checkpoint.status = "failed";
  checkpoint.bytes = std::numeric_limits<std::uint64_t>::max();
  checkpoint.seconds = 3;
  checkpoint.stall_seconds = 0.125;
  checkpoint.copy_seconds = 1.0 / 3;
  checkpoint.write_seconds = 2.5;
  checkpoint.sync_seconds = 1e-9;
  checkpoint.message = "disk full";
  const auto checkpoint_back = std::get<contract::CheckpointRecord>(back(record(checkpoint)).body);
  EXPECT_EQ(checkpoint_back.bytes, checkpoint.bytes);
  EXPECT_EQ(checkpoint_back.seconds, 3) << "not confused with the record's own time";
  EXPECT_EQ(checkpoint_back.stall_seconds, 0.125);
  EXPECT_EQ(checkpoint_back.copy_seconds, 1.0 / 3);
  EXPECT_EQ(checkpoint_back.write_seconds, 2.5);
  EXPECT_EQ(checkpoint_back.sync_seconds, 1e-9);
  EXPECT_EQ(checkpoint_back.message, "disk full");

  EXPECT_EQ(
      std::get<contract::PhaseRecord>(back(record(contract::PhaseRecord{"loading"})).body).phase,
      "loading");
  contract::EndRecord end{"failed", 12, 21, "no room"};
  EXPECT_EQ(std::get<contract::EndRecord>(back(record(end)).body).exit_code, 21);
  EXPECT_EQ(
      std::get<contract::UnknownRecord>(back(record(contract::UnknownRecord{"later"})).body).type,
      "later");
}

TEST(Journal, RoundTripsWhatManyRanksWrite) {
  contract::StartRecord start;
  start.ranks = 8;
  start.ranks_per_node = 4;
  start.hosts = {"node-1", "node \"2\""};
  start.device = "NVIDIA H100 \"80\" GB";
  start.peak_flops = 7.912e15;
  start.bucket_bytes = {0, 26'214'400, std::numeric_limits<std::int64_t>::max()};
  const auto start_back = std::get<contract::StartRecord>(back(record(start)).body);
  EXPECT_EQ(start_back.ranks, 8);
  EXPECT_EQ(start_back.ranks_per_node, 4);
  EXPECT_EQ(start_back.device, start.device);
  EXPECT_EQ(start_back.peak_flops, 7.912e15);
  EXPECT_EQ(start_back.bucket_bytes, start.bucket_bytes);
  EXPECT_EQ(start_back.hosts, start.hosts);

  contract::StepRecord step;
  step.exposed_seconds = 0.0125;
  step.bucket_launched = {0.1, 1.0 / 3, 0.4};
  step.bucket_finished = {0.2, 0.5, 1e-9};
  step.imbalance = 1.0004;
  step.moved_bytes = std::int64_t{1} << 40U;
  step.noise_scale = 1234.5;
  step.efficiency = 0.875;
  step.goodput = 301.25;
  step.noise_scale_low = 1000.25;
  step.noise_scale_high = 1.0 / 3;
  step.raw_noise_scale = 55.5;
  step.raw_noise_scale_low = 44.5;
  step.raw_noise_scale_high = 66.5;
  step.statistics_seconds = 0.0625;
  step.mfu = 0.41;
  step.utilisation = 0.93;
  const auto step_back = std::get<contract::StepRecord>(back(record(step)).body);
  EXPECT_EQ(step_back.exposed_seconds, 0.0125);
  EXPECT_EQ(step_back.bucket_launched, step.bucket_launched);
  EXPECT_EQ(step_back.bucket_finished, step.bucket_finished);
  EXPECT_EQ(step_back.imbalance, 1.0004);
  EXPECT_EQ(step_back.moved_bytes, step.moved_bytes);
  EXPECT_EQ(step_back.noise_scale, 1234.5);
  EXPECT_EQ(step_back.efficiency, 0.875);
  EXPECT_EQ(step_back.goodput, 301.25);
  EXPECT_EQ(step_back.noise_scale_low, 1000.25);
  EXPECT_EQ(step_back.noise_scale_high, 1.0 / 3);
  EXPECT_EQ(step_back.raw_noise_scale, 55.5);
  EXPECT_EQ(step_back.raw_noise_scale_low, 44.5);
  EXPECT_EQ(step_back.raw_noise_scale_high, 66.5);
  EXPECT_EQ(step_back.statistics_seconds, 0.0625);
  EXPECT_EQ(step_back.mfu, 0.41);
  EXPECT_EQ(step_back.utilisation, 0.93);

  contract::HeartbeatRecord heartbeat;
  heartbeat.step = 41;
  heartbeat.rank = 3;
  heartbeat.phase = "backward";
  heartbeat.phase_seconds = 0.75;
  const auto heartbeat_back = std::get<contract::HeartbeatRecord>(back(record(heartbeat)).body);
  EXPECT_EQ(heartbeat_back.step, 41);
  EXPECT_EQ(heartbeat_back.rank, 3);
  EXPECT_EQ(heartbeat_back.phase, "backward");
  EXPECT_EQ(heartbeat_back.phase_seconds, 0.75);
}

TEST(Journal, TellsWhatEachRankDid) {
  contract::RanksRecord ranks;
  ranks.step = 41;
  ranks.tokens = {4096, 3980, 0};
  ranks.compute_seconds = {0.25, 1.0 / 3, 0};
  const auto read = std::get<contract::RanksRecord>(back(record(ranks)).body);
  EXPECT_EQ(read.step, 41);
  EXPECT_EQ(read.tokens, ranks.tokens);
  EXPECT_EQ(read.compute_seconds, ranks.compute_seconds);
}

TEST(Journal, TellsOfADivergence) {
  contract::DivergenceRecord divergence;
  divergence.step = 17;
  divergence.quantity = "output";
  divergence.tensor = "bert.embeddings.LayerNorm.weight";
  divergence.layer = "the embeddings";
  divergence.rank = 3;
  divergence.action = "rollback";
  divergence.checkpoint = "step-0000000014-a";
  divergence.checkpoint_step = 14;
  divergence.rollbacks = 2;
  divergence.skipped_steps = 9;
  divergence.message = "the loss is not finite";
  const auto told = std::get<contract::DivergenceRecord>(back(record(divergence)).body);
  EXPECT_EQ(told.step, 17);
  EXPECT_EQ(told.quantity, divergence.quantity);
  EXPECT_EQ(told.tensor, divergence.tensor);
  EXPECT_EQ(told.layer, divergence.layer);
  EXPECT_EQ(told.rank, 3);
  EXPECT_EQ(told.action, "rollback");
  EXPECT_EQ(told.checkpoint, divergence.checkpoint);
  EXPECT_EQ(told.checkpoint_step, 14);
  EXPECT_EQ(told.rollbacks, 2);
  EXPECT_EQ(told.skipped_steps, 9);
  EXPECT_EQ(told.message, divergence.message);
  EXPECT_EQ(std::get<contract::DivergenceRecord>(back(record(contract::DivergenceRecord{})).body)
                .checkpoint_step,
            -1)
      << "there is none";
}

TEST(Journal, TellsOfATrial) {
  contract::TrialRecord trial;
  trial.step = 51;
  trial.steps = 48;
  trial.rounds = 11;
  trial.cuts = {"default", "plan", "finer"};
  trial.cut_buckets = {16, 1, 2};
  trial.cut_seconds = {0.5, 1.0 / 3, 0};
  trial.winner = "plan";
  trial.gain = 0.25;
  trial.noise = 0.0125;
  trial.why = "plan takes 25.0 % less time than default";
  trial.bucket_bytes = {1'344'904'432};
  const std::string line = contract::to_line(record(trial));
  EXPECT_NE(line.find("\"type\":\"trial\""), std::string::npos) << line;
  const auto read = std::get<contract::TrialRecord>(back(record(trial)).body);
  EXPECT_EQ(read.step, 51);
  EXPECT_EQ(read.steps, 48);
  EXPECT_EQ(read.rounds, 11);
  EXPECT_EQ(read.cuts, trial.cuts);
  EXPECT_EQ(read.cut_buckets, trial.cut_buckets);
  EXPECT_EQ(read.cut_seconds, trial.cut_seconds);
  EXPECT_EQ(read.winner, "plan");
  EXPECT_EQ(read.gain, 0.25);
  EXPECT_EQ(read.noise, 0.0125);
  EXPECT_EQ(read.why, trial.why);
  EXPECT_EQ(read.bucket_bytes, trial.bucket_bytes);
  EXPECT_FALSE(contract::parse_record(R"({"type":"trial","cut_buckets":[1.5]})"));
  EXPECT_FALSE(contract::parse_record(R"({"type":"trial","cut_seconds":{}})"));
}

TEST(Journal, WhatIsNotKnownYetIsAbsent) {
  const std::string line = contract::to_line(record(contract::StepRecord{}));
  for (const char* field : {"noise_scale", "efficiency", "goodput"}) {
    EXPECT_EQ(line.find(field), std::string::npos) << field;
  }
  const auto step_back = std::get<contract::StepRecord>(back(record(contract::StepRecord{})).body);
  EXPECT_EQ(step_back.noise_scale, std::nullopt);
  EXPECT_EQ(step_back.efficiency, std::nullopt);
  EXPECT_EQ(step_back.goodput, std::nullopt);
  EXPECT_EQ(step_back.noise_scale_high, std::nullopt);
  EXPECT_EQ(step_back.raw_noise_scale, std::nullopt);
}

TEST(Journal, ReadsWhatOneRankWroteBefore) {
  const auto start = contract::parse_record(R"({"type":"start","attempt":1,"steps":5})");
  ASSERT_TRUE(start.has_value());
  EXPECT_EQ(std::get<contract::StartRecord>(start->body).ranks, 1);
  EXPECT_EQ(std::get<contract::StartRecord>(start->body).ranks_per_node, 1);
  EXPECT_EQ(std::get<contract::StartRecord>(start->body).device, "");
  EXPECT_EQ(std::get<contract::StartRecord>(start->body).peak_flops, 0);
  EXPECT_TRUE(std::get<contract::StartRecord>(start->body).bucket_bytes.empty());
  EXPECT_TRUE(std::get<contract::StartRecord>(start->body).hosts.empty());
  EXPECT_FALSE(contract::parse_record(R"({"type":"start","hosts":["a",1]})"));
  EXPECT_FALSE(contract::parse_record(R"({"type":"start","hosts":"a"})"));
  const auto step = contract::parse_record(R"({"type":"step","step":5,"loss":2.5})");
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(std::get<contract::StepRecord>(step->body).mfu, 0);
  EXPECT_EQ(std::get<contract::StepRecord>(step->body).imbalance, 1);
  EXPECT_TRUE(std::get<contract::StepRecord>(step->body).bucket_launched.empty());
}

TEST(Journal, ReadsWhatWasWrittenWhileTrainingWaited) {
  const auto old = contract::parse_record(
      R"({"sequence":3,"utc_seconds":1795261682.5,"seconds":9.5,"type":"checkpoint","step":40,)"
      R"("name":"step-0000000040-a","status":"written","bytes":7,"checkpoint_seconds":0.25,)"
      R"("message":""})");
  ASSERT_TRUE(old.has_value());
  const auto& checkpoint = std::get<contract::CheckpointRecord>(old->body);
  EXPECT_EQ(checkpoint.bytes, 7U);
  EXPECT_EQ(checkpoint.seconds, 0.25);
  EXPECT_EQ(checkpoint.stall_seconds, 0);
  EXPECT_EQ(checkpoint.copy_seconds, 0);
  EXPECT_EQ(checkpoint.write_seconds, 0);
  EXPECT_EQ(checkpoint.sync_seconds, 0);
}

TEST(Journal, ListsOfAnyLengthMakeLinesThatAreRead) {
  contract::StepRecord step;
  step.bucket_launched.assign(100'000, -1.2345678901234567e-300);  // the longest text of a double
  step.bucket_finished = step.bucket_launched;
  const auto cut = std::get<contract::StepRecord>(back(record(step)).body).bucket_launched;
  EXPECT_GE(cut.size(), 1000U);
  EXPECT_EQ(cut.front(), step.bucket_launched.front());
  EXPECT_EQ(std::get<contract::StepRecord>(back(record(step)).body).bucket_finished.size(),
            cut.size());
  contract::StartRecord start;
  start.bucket_bytes.assign(100'000, std::numeric_limits<std::int64_t>::min());
  start.hosts.assign(100'000, std::string(64, '\x01'));
  for (std::string* text : {&start.execution, &start.host, &start.version, &start.device,
                            &start.checkpoint, &start.metric}) {
    text->assign(100'000, '\x01');
  }
  EXPECT_EQ(std::get<contract::StartRecord>(back(record(start)).body).bucket_bytes.size(),
            cut.size());

  std::string longer = R"({"type":"step","bucket_launched":[0)";
  for (std::size_t i = 0; i < cut.size(); ++i) longer += ",0";
  EXPECT_FALSE(contract::parse_record(longer + "]}").has_value())
      << "one more than a writer writes";

  step.bucket_launched = {1, kNaN, kInfinity};
  const auto odd = std::get<contract::StepRecord>(back(record(step)).body).bucket_launched;
  ASSERT_EQ(odd.size(), 3U);
  EXPECT_EQ(odd[0], 1);
  EXPECT_TRUE(std::isnan(odd[1]));
  EXPECT_TRUE(std::isnan(odd[2]));
}

TEST(Journal, KeepsHostileTexts) {
  for (const std::string& text :
       {std::string("two\nlines"), std::string("\"quoted\" \\ back"), std::string("\x1b[2J"),
        std::string("caf\xc3\xa9"), std::string("a\0b", 3), std::string("{\"type\":\"end\"}"),
        std::string("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[")}) {
    EXPECT_EQ(
        std::get<contract::WarningRecord>(back(record(contract::WarningRecord{text})).body).message,
        text);
  }
  // Bytes that are no UTF-8 are replaced, and no text makes a line that cannot be read again.
  EXPECT_FALSE(
      std::get<contract::WarningRecord>(back(record(contract::WarningRecord{"\xff\xfe"})).body)
          .message.empty());
  const std::string huge(3'000'000, '\x01');
  const auto cut =
      std::get<contract::WarningRecord>(back(record(contract::WarningRecord{huge})).body).message;
  EXPECT_EQ(cut, huge.substr(0, cut.size()));
  EXPECT_GE(cut.size(), 1000U);
}

TEST(Journal, DoublesRoundTripExactly) {
  std::mt19937_64 random(20261121);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t bits = random();
    double value = 0;
    static_assert(sizeof bits == sizeof value);
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    contract::StepRecord step;
    step.loss = value;
    ASSERT_EQ(std::get<contract::StepRecord>(back(record(step)).body).loss, value);
  }
  for (const double value : {0.1, 1e-323, 1.7976931348623157e308, -0.0, 1.0 / 3, 123456789012.0}) {
    contract::StepRecord step;
    step.loss = value;
    const double again = std::get<contract::StepRecord>(back(record(step)).body).loss;
    EXPECT_EQ(again, value);
    EXPECT_EQ(std::signbit(again), std::signbit(value));
  }
}

TEST(Journal, WhatIsNoNumberBecomesNullAndReadsAsNaN) {
  for (const double value : {kNaN, kInfinity, -kInfinity}) {
    contract::StepRecord step;
    step.loss = value;
    const std::string line = contract::to_line(record(step));
    EXPECT_NE(line.find("\"loss\":null"), std::string::npos) << line;
    EXPECT_TRUE(std::isnan(std::get<contract::StepRecord>(back(record(step)).body).loss));
  }
}

TEST(Journal, IgnoresUnknownFieldsAndKeepsDefaultsOfAbsentOnes) {
  const auto parsed =
      contract::parse_record(R"({"type":"step","later":[1,{"a":[]}],"step":5,"sequence":9})");
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->sequence, 9);
  EXPECT_EQ(std::get<contract::StepRecord>(parsed->body).step, 5);
  EXPECT_EQ(std::get<contract::StepRecord>(parsed->body).loss, 0);
}

TEST(Journal, DamagedLinesAreNoRecords) {
  struct Row {
    const char* name;
    std::string line;
  };
  std::string padded = R"({"type":"phase","phase":"x"})";
  padded.resize((1 << 20) + 1, ' ');
  const Row rows[] = {
      {"empty", ""},
      {"blank", "   "},
      {"text", "hello"},
      {"number", "3"},
      {"null", "null"},
      {"list", "[]"},
      {"half", R"({"type":"step","st)"},
      {"two objects", R"({"type":"phase"}{"type":"phase"})"},
      {"no type", R"({"sequence":1})"},
      {"type number", R"({"type":3})"},
      {"type empty", R"({"type":""})"},
      {"sequence text", R"({"type":"step","sequence":"1"})"},
      {"sequence fraction", R"({"type":"step","sequence":1.5})"},
      {"sequence negative", R"({"type":"step","sequence":-1})"},
      {"sequence beyond 64 bits", R"({"type":"step","sequence":9223372036854775808})"},
      {"step text", R"({"type":"step","step":"1"})"},
      {"step null", R"({"type":"step","step":null})"},
      {"loss text", R"({"type":"step","loss":"nan"})"},
      {"loss list", R"({"type":"step","loss":[1]})"},
      {"bool number", R"({"type":"eval","target_met":1})"},
      {"text number", R"({"type":"phase","phase":1})"},
      {"int beyond 32 bits", R"({"type":"end","exit_code":4294967296})"},
      {"bytes negative", R"({"type":"checkpoint","bytes":-1})"},
      {"stall text", R"({"type":"checkpoint","stall_seconds":"0.1"})"},
      {"copy list", R"({"type":"checkpoint","copy_seconds":[0.1]})"},
      {"write boolean", R"({"type":"checkpoint","write_seconds":true})"},
      {"sync object", R"({"type":"checkpoint","sync_seconds":{}})"},
      {"target text", R"({"type":"start","target":"x"})"},
      {"utc text", R"({"type":"step","utc_seconds":"now"})"},
      {"list a number", R"({"type":"step","bucket_launched":1})"},
      {"list an object", R"({"type":"step","bucket_launched":{"0":1}})"},
      {"list null", R"({"type":"step","bucket_finished":null})"},
      {"list of text", R"({"type":"step","bucket_finished":[1,"2"]})"},
      {"list of lists", R"({"type":"step","bucket_finished":[[1]]})"},
      {"list of booleans", R"({"type":"step","bucket_launched":[true]})"},
      {"sizes with a fraction", R"({"type":"start","bucket_bytes":[4,1.5]})"},
      {"sizes null", R"({"type":"start","bucket_bytes":[null]})"},
      {"sizes beyond 64 bits", R"({"type":"start","bucket_bytes":[9223372036854775808]})"},
      {"sizes far beyond", R"({"type":"start","bucket_bytes":[1e300]})"},
      {"ranks text", R"({"type":"start","ranks":"4"})"},
      {"ranks beyond 32 bits", R"({"type":"start","ranks":4294967296})"},
      {"device number", R"({"type":"start","device":1})"},
      {"peak text", R"({"type":"start","peak_flops":"1e15"})"},
      {"moved fraction", R"({"type":"step","moved_bytes":0.5})"},
      {"noise text", R"({"type":"step","noise_scale":"big"})"},
      {"goodput list", R"({"type":"step","goodput":[1]})"},
      {"mfu boolean", R"({"type":"step","mfu":true})"},
      {"heartbeat rank text", R"({"type":"heartbeat","rank":"3"})"},
      {"heartbeat phase number", R"({"type":"heartbeat","phase":3})"},
      {"heartbeat time text", R"({"type":"heartbeat","phase_seconds":"1"})"},
      {"not UTF-8", "{\"type\":\"phase\",\"phase\":\"\xff\"}"},
      {"NUL inside", std::string("{\"type\":\"phase\"\0}", 17)},
      {"NULs after", R"({"type":"phase"})" + std::string(100, '\0')},
      {"NULs only", std::string(4096, '\0')},
      {"deep list", std::string(1 << 20, '[')},
      {"deep objects",
       "{\"type\":\"step\",\"x\":" + std::string(100, '[') + std::string(100, ']') + "}"},
      {"too long", padded},
      {"binary", "\x93NUMPY\x01"},
  };
  for (const Row& row : rows) {
    EXPECT_FALSE(contract::parse_record(row.line).has_value()) << row.name;
    const contract::JournalChunk chunk = contract::parse_journal(row.line + "\n");
    EXPECT_EQ(chunk.damaged, 1) << row.name;
    EXPECT_EQ(chunk.consumed, row.line.size() + 1) << row.name;
  }
}

TEST(Journal, NumbersThatCannotBeMakeNoRecord) {
  struct Row {
    const char* type;
    const char* field;
    std::vector<const char*> can, cannot;
  };
  const std::vector<const char*> seconds = {"0", "-0.0005", "1e10", "null"};
  const std::vector<const char*> no_seconds = {"-1", "1e11", "1e308", "-1e308"};
  const std::vector<const char*> counts = {"0", "9007199254740992"};
  const std::vector<const char*> no_counts = {"-1", "-3", "9007199254740993",
                                              "9223372036854775807"};
  const std::vector<const char*> shares = {"0", "1", "0.5", "null"};
  const std::vector<const char*> no_shares = {"-0.1", "1.0001", "7", "1e300"};
  const Row rows[] = {
      {"phase", "seconds", seconds, no_seconds},
      {"phase", "utc_seconds", {"0", "1795261682.5", "null"}, {"-1", "1e11"}},
      {"step", "step", counts, no_counts},
      {"step", "step_seconds", seconds, no_seconds},
      {"step", "samples", counts, no_counts},
      {"step", "tokens", counts, no_counts},
      {"step", "masked", counts, no_counts},
      {"step", "data_seconds", seconds, no_seconds},
      {"step", "loss", {"-1e300", "1e300", "null"}, {}},
      {"eval", "step", counts, no_counts},
      {"eval", "mlm_accuracy", shares, no_shares},
      {"eval", "nsp_accuracy", shares, no_shares},
      {"eval", "eval_seconds", seconds, no_seconds},
      {"start", "steps", counts, no_counts},
      {"start", "first_step", counts, no_counts},
      {"start", "parameters", counts, no_counts},
      {"checkpoint", "step", counts, no_counts},
      {"checkpoint", "checkpoint_seconds", seconds, no_seconds},
      {"end", "step", counts, no_counts},
      {"end", "exit_code", {"-1", "75"}, {}},
      {"divergence", "checkpoint_step", {"-1", "5"}, {}},
      {"trial", "cut_seconds", {"[0, 0.5]"}, {"[0, -1]", "[1e11]"}},
      {"ranks", "step", counts, no_counts},
      {"ranks", "tokens", {"[]", "[0, 4096]"}, {"[-1]", "[0.5]", "[9007199254740993]"}},
      {"ranks", "compute_seconds", {"[]", "[0, 0.5]"}, {"[0, -1]", "[1e11]"}},
  };
  const auto is_record = [](const Row& row, const char* value) {
    const std::string line =
        std::string(R"({"type":")") + row.type + R"(",")" + row.field + "\":" + value + "}";
    return contract::parse_record(line).has_value();
  };
  for (const Row& row : rows) {
    for (const char* const value : row.can) {
      EXPECT_TRUE(is_record(row, value)) << row.type << " " << row.field << " " << value;
    }
    for (const char* const value : row.cannot) {
      EXPECT_FALSE(is_record(row, value)) << row.type << " " << row.field << " " << value;
    }
  }
}

TEST(Journal, EveryTruncationOfALineIsDamagedOrTorn) {
  contract::StepRecord step;
  step.loss = 1.25;
  const std::string line = contract::to_line(record(step));
  for (std::size_t size = 0; size + 1 < line.size(); ++size) {
    EXPECT_FALSE(contract::parse_record(line.substr(0, size)).has_value()) << size;
  }
}

TEST(Journal, ReadsInAnyPieces) {
  std::string text;
  for (int i = 0; i < 20; ++i)
    text += contract::to_line(record(contract::PhaseRecord{"p" + std::to_string(i)}, i));
  text.insert(text.find('{', text.size() / 2), "#");  // damages one line
  const contract::JournalChunk whole = contract::parse_journal(text);
  EXPECT_EQ(whole.records.size(), 19U);
  EXPECT_EQ(whole.damaged, 1);
  EXPECT_EQ(whole.consumed, text.size());
  for (std::size_t piece = 1; piece < 200; piece += 7) {
    std::vector<std::int64_t> sequences;
    int damaged = 0;
    std::size_t offset = 0;
    for (std::size_t end = 0; end < text.size() + piece; end += piece) {
      const std::size_t readable = std::min(end, text.size());
      const contract::JournalChunk chunk =
          contract::parse_journal(std::string_view(text).substr(offset, readable - offset));
      for (const contract::JournalRecord& found : chunk.records)
        sequences.push_back(found.sequence);
      damaged += chunk.damaged;
      offset += chunk.consumed;
    }
    EXPECT_EQ(sequences.size(), 19U) << piece;
    EXPECT_TRUE(std::is_sorted(sequences.begin(), sequences.end()));
    EXPECT_EQ(damaged, 1);
  }
}

TEST(Journal, ATornLastLineWaits) {
  const std::string line = contract::to_line(record(contract::PhaseRecord{"loading"}));
  const contract::JournalChunk chunk = contract::parse_journal(line + line.substr(0, 10));
  EXPECT_EQ(chunk.records.size(), 1U);
  EXPECT_EQ(chunk.damaged, 0);
  EXPECT_EQ(chunk.consumed, line.size());
  EXPECT_EQ(contract::parse_journal("").consumed, 0U);
}

TEST(Journal, ALineWithoutEndDoesNotWaitForEver) {
  const std::string endless((1 << 20) + 1, 'x');
  const contract::JournalChunk chunk = contract::parse_journal(endless);
  EXPECT_EQ(chunk.consumed, endless.size());
  EXPECT_EQ(chunk.damaged, 1);
  // Its rest is one more damaged line, and what follows is read.
  const contract::JournalChunk rest = contract::parse_journal(
      "xxx\n" + contract::to_line(record(contract::PhaseRecord{"loading"})));
  EXPECT_EQ(rest.damaged, 1);
  EXPECT_EQ(rest.records.size(), 1U);
}

}  // namespace
}  // namespace regatta::trainer
