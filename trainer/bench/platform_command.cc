#include "trainer/bench/platform_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/process.h"
#include "base/text.h"
#include "trainer/plugins/make_device.h"
#include "trainer/run/stop_signals.h"

namespace regatta::trainer::bench {
namespace {

constexpr double kAllReduceTimeout = 60;
constexpr std::uint64_t kMostCommBytes = std::uint64_t{1} << 20U;
// What would make a child believe that it is a rank already.
constexpr std::array<std::string_view, 4> kOfALauncher = {"SLURM", "PMI", "OMPI_COMM_", "PRTE_"};

std::string last_line(const std::string& text) {
  for (std::vector<std::string> lines = base::split(text, '\n'); !lines.empty(); lines.pop_back()) {
    if (!lines.back().empty()) return lines.back();
  }
  return "it said nothing";
}

}  // namespace

CLI::App* PlatformCommand::add(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand(
      "platform",
      "what this machine can do: products, memory, copies, all-reduce, launches, storage, input, "
      "threads, a step by operation; a table on stderr, JSON on stdout");
  app->add_option("--seconds", seconds_, "about how long to measure")
      ->check(CLI::Range(1.0, 3600.0))
      ->capture_default_str();
  app->add_option("--out", out_, "write the JSON to this file instead");
  app->add_option("--directory", directory_, "where storage is measured; nothing stays there")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  return app;
}

int PlatformCommand::run() {
  run::catch_stop_signals();
  bool stopped = false;
  const PlatformTools tools{
      base::system_clock(),
      base::posix_file_system(),
      plugins::MachineFiles(base::posix_file_system()),
      [this](contract::DeviceKind kind, contract::Precision precision, int threads) {
        return plugins::make_device(
            {kind, precision, contract::AttentionKind::Automatic, threads, 0}, place_.device);
      },
      [this] { return all_reduce_of_two(place_, directory_, kAllReduceTimeout); },
      [&stopped] { return stopped = stopped || run::take_requests().stop; }};
  const PlatformOptions options{
      seconds_, cores_, directory_, BenchLengths().table(place_.device.program), place_.commit, {}};
  const contract::PlatformBench bench = bench_platform(tools, options);
  const std::string json = base::json_text(contract::to_json(bench), 2) + "\n";
  std::fputs(platform_table(bench).c_str(), stderr);
  if (out_.empty()) {
    std::fputs(json.c_str(), stdout);
  } else {
    base::replace_file(base::posix_file_system(), out_, json);
  }
  return 0;
}

std::vector<CommRow> rows_of_comm_json(const std::string& text) {
  const auto json = base::parse_json<nlohmann::json>(text);
  std::vector<CommRow> rows;
  try {
    const auto& results = json.at("results");
    const auto& seconds = json.at("regatta").at("round_seconds");
    for (std::size_t i = 0; i < results.size(); ++i) {
      rows.push_back(
          {results.at(i).at("size").get<std::int64_t>(), seconds.at(i).get<std::vector<double>>()});
    }
  } catch (const nlohmann::json::exception&) {
    rows.clear();
  }
  const bool good = std::all_of(rows.begin(), rows.end(), [](const CommRow& row) {
    return row.bytes > 0 && !row.seconds.empty();
  });
  if (rows.empty() || !good) {
    throw base::Error(base::Code::Operator, "bench comm wrote no all-reduce");
  }
  return rows;
}

std::vector<CommRow> all_reduce_of_two(const BenchPlace& place, const base::Path& directory,
                                       double timeout_seconds) {
  base::FileSystem& files = base::posix_file_system();
  const base::Path json =
      directory / ("regatta-platform-bench-comm-" + std::to_string(getpid()) + ".json");
  base::Command command;
  command.arguments = {place.device.program.string(),
                       "bench",
                       "comm",
                       "--ranks",
                       "2",
                       "--collectives",
                       "all-reduce",
                       "--min-bytes",
                       "65536",
                       "--max-bytes",
                       "16777216",
                       "--factor",
                       "16",
                       "--rounds",
                       "7",
                       "--json",
                       json.string()};
  command.bare_environment = true;
  for (const std::string& variable : ranks::all_process_variables()) {
    const std::size_t equals = variable.find('=');
    const bool launched =
        std::any_of(kOfALauncher.begin(), kOfALauncher.end(),
                    [&](std::string_view prefix) { return variable.rfind(prefix, 0) == 0; });
    if (equals == std::string::npos || launched) continue;
    command.environment[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  const base::Output output = base::run(command, timeout_seconds);
  std::string text;
  if (files.exists(json)) {
    text = files.read(json, kMostCommBytes);
    files.remove_file(json);
  }
  if (output.timed_out) {
    throw base::Error(base::Code::Operator,
                      "two ranks did not finish within " + base::human_seconds(timeout_seconds));
  }
  if (output.exit.code != 0) {
    throw base::Error(base::Code::Operator, "no two ranks: " + last_line(output.errors));
  }
  return rows_of_comm_json(text);
}

}  // namespace regatta::trainer::bench
