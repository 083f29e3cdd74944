#include "tests/bench/served_controller.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"

namespace regatta::bench {

using Json = nlohmann::ordered_json;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void write(const base::Path& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

void make_slurm(const base::Path& place, int nodes) {
  std::filesystem::create_directories(place);
  {
    std::ofstream list(place / "nodes.txt");
    for (int i = 0; i < nodes; ++i) {
      list << "NodeName=node" << i << " Arch=x86_64 CoresPerSocket=32 CPUAlloc=" << i % 65
           << " CPUTot=64 Gres=gpu:h100:8 State=" << (i % 50 == 0 ? "IDLE+DRAIN" : "MIXED")
           << " RealMemory=1000000 AllocMem=64000 FreeMem=32000 Sockets=2 Partitions=main"
           << (i % 50 == 0 ? " Reason=\"fan\"" : "") << "\n";
    }
  }
  write(place / "config.txt",
        "ClusterName = bench\nSLURM_VERSION = 24.11.5\nMinJobAge = 300 sec\nJobRequeue = 1\n"
        "AccountingStorageType = accounting_storage/slurmdbd\n");
  for (const char* const program : {"sbatch", "squeue", "scancel", "sacct", "scontrol", "sinfo"}) {
    write(place / program,
          "#!/bin/sh\ncase \"$*\" in\n*--version*) echo slurm 24.11.5 ;;\n"
          "*'show config'*) cat " +
              (place / "config.txt").string() + " ;;\n*'show node'*) cat " +
              (place / "nodes.txt").string() + " ;;\nesac\n");
    ::chmod((place / program).c_str(), 0700);
  }
}

Served::Served(const base::Path& work, const base::Path& data, const base::Path& runs)
    : log_(work / "serve.log"), data_(data) {
  base::Command command;
  command.arguments = {REGATTA_BINARY_DIR "/orchestrator/regatta",
                       "serve",
                       "--allow-privileged",
                       "--port",
                       "0",
                       "--scheduler",
                       "slurm_cli",
                       "--data",
                       data.string(),
                       "--runs",
                       runs.string(),
                       "--trainer",
                       (work / "trainer").string()};
  command.environment["PATH"] = (work / "bin").string() + ":/usr/bin:/bin";
  command.output_path = log_;
  std::filesystem::remove(log_);
  begin_ = Clock::now();
  process_ = base::spawn(command);
  wait_for_url();
  place_.token = base::posix_file_system().read(data / "token", 100).substr(0, 64);
  while (bench::ask(place_, {"GET", "/runs"}).status != 200) pause("no answer");
  first_answer_ = since(begin_);
}

Served::~Served() {
  ::kill(process_, SIGTERM);
  (void)base::wait_exit(process_);
}

Json Served::get(const std::string& target) const {
  const HttpAnswer answer = bench::ask(place_, {"GET", target});
  if (answer.status != 200) {
    throw base::Error(base::Code::Operator, "the controller answers " + target + " with " +
                                                std::to_string(answer.status) + ": " + answer.body);
  }
  return Json::parse(answer.body);
}

void Served::wait_until_adopted() {
  while (!get("/version")["adoption"]["done"].get<bool>()) pause("not adopted");
}

double Served::memory(const std::string& what) const {
  std::ifstream status("/proc/" + std::to_string(process_) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(what + ":", 0) == 0) return std::stod(line.substr(what.size() + 1)) / 1000;
  }
  return 0;
}

double Served::processor_seconds() const {
  const std::string text =
      base::posix_file_system().read("/proc/" + std::to_string(process_) + "/stat", 4096);
  const auto words = base::split(text.substr(text.rfind(')') + 2), ' ');
  const auto ticks = std::stod(words[11]) + std::stod(words[12]);
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

void Served::pause(const std::string& what) const {
  if (since(begin_) > kStartSeconds) {
    throw base::Error(base::Code::Operator,
                      what + ": " + base::read_tail(base::posix_file_system(), log_, 2000));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

void Served::wait_for_url() {
  while (place_.port == 0) {
    std::ifstream log(log_);
    for (std::string line; std::getline(log, line);) {
      if (line.rfind("http://127.0.0.1:", 0) != 0) continue;
      place_.port = static_cast<int>(base::parse_integer(line.substr(17)).value_or(0));
    }
    if (place_.port == 0) pause("not started");
  }
}

}  // namespace regatta::bench
