#include "trainer/plugins/environment.h"

#include <gnu/libc-version.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "trainer/contract/environment_file.h"
#include "trainer/plugins/machine_facts.h"
#include "trainer/plugins/shown_variables.h"

namespace regatta::trainer::plugins {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxProgramBytes = std::uint64_t{1} << 30U;

void put(Json* json, const char* key, const std::string& value) {
  if (!value.empty()) (*json)[key] = value;
}

#if defined(__clang__)
constexpr const char* kCompiler = "clang " __clang_version__;
#else
constexpr const char* kCompiler = "gcc " __VERSION__;
#endif

Json build_of(base::FileSystem& files, const AttemptFacts& facts) {
  Json json = Json::object();
  json["version"] = REGATTA_VERSION;
  put(&json, "commit", facts.commit);
  put(&json, "program_xxh3_128", digest_of_file(files, facts.program));
  json["compiler"] = kCompiler;
  put(&json, "type", REGATTA_BUILD_TYPE);
  put(&json, "flags", REGATTA_BUILD_FLAGS);
  Json libraries = Json::object();
  libraries["glibc"] = gnu_get_libc_version();
  for (const auto& [name, version] : facts.device.libraries) libraries[name] = version;
  // "Open MPI v4.1.4", "NCCL 2.28.9"
  const std::size_t space = facts.communicator.rfind(' ');
  if (space != std::string::npos) {
    libraries[facts.communicator.substr(0, space)] = facts.communicator.substr(space + 1);
  } else if (!facts.communicator.empty()) {
    libraries[facts.communicator] = "";
  }
  json["libraries"] = std::move(libraries);
  return json;
}

Json devices_of(const AttemptFacts& facts) {
  Json device = Json::object();
  put(&device, "kind", facts.device.kind);
  put(&device, "model", facts.device.model);
  put(&device, "compute_capability", facts.device.compute_capability);
  device["description"] = facts.device_description;
  return {{"of_rank_0", std::move(device)}};
}

Json fabric_of(const AttemptFacts& facts) {
  const contract::RunConfig& config = facts.config;
  Json json = {
      {"ranks", config.ranks}, {"ranks_per_node", config.ranks_per_node}, {"hosts", facts.hosts}};
  if (config.ranks > 1) {
    json["transport"] = facts.device.kind == "cuda" ? "NCCL" : "MPI";
    json["hierarchical"] = config.hierarchical;
  }
  if (facts.plan) json["plan_xxh3_128"] = base::digest_of(*facts.plan);
  put(&json, "topology", facts.topology);
  return json;
}

Json numerics_of(const AttemptFacts& facts) {
  const contract::RunConfig& config = facts.config;
  const bool is_half =
      config.dtype == contract::Precision::BFloat16 || config.dtype == contract::Precision::Float16;
  Json json = Json::object();
  json["activations"] = is_half ? contract::name_of(config.dtype) : "float32";
  json["tf32"] = facts.device.tf32;
  // Whatever the activations have (trainer/contract/run_config.h, Precision).
  for (const char* const key : {"sums", "weights", "optimizer_state", "gradients_between_ranks"}) {
    json[key] = "float32";
  }
  put(&json, "instruction_set", facts.device.instruction_set);
  Json products = Json::object();
  put(&products, "forward", facts.device.products);
  put(&products, "input_gradients", facts.device.products);
  put(&products, "weight_gradients", facts.device.weight_gradient_products);
  if (!products.empty()) json["products"] = std::move(products);
  put(&json, "attention", facts.device.attention);
  json["gelu"] = config.model.gelu == contract::Gelu::Tanh ? "tanh" : "erf";
  if (facts.device.threads > 0) json["threads"] = facts.device.threads;
  json["determinism"] = contract::name_of(config.determinism.level);
  if (config.determinism.shards > 0) json["shards"] = config.determinism.shards;
  return json;
}

Json data_of(const AttemptFacts& facts) {
  Json datasets = Json::array();
  for (const DatasetIdentity& dataset : facts.datasets) {
    Json json = Json::object();
    put(&json, "fingerprint", dataset.fingerprint);
    Json vocabulary = Json::object();
    vocabulary["pieces"] = dataset.vocabulary_size;
    put(&vocabulary, "xxh3_128", dataset.vocabulary_digest);
    json["vocabulary"] = std::move(vocabulary);
    json["tokenizer"] = {{"lower_case", dataset.lower_case}, {"word_limit", dataset.word_limit}};
    put(&json, "corpus_xxh3_128", dataset.corpus_digest);
    put(&json, "training_xxh3_128", dataset.training_digest);
    put(&json, "evaluation_xxh3_128", dataset.evaluation_digest);
    datasets.push_back(std::move(json));
  }
  return {{"fingerprint", facts.data_fingerprint}, {"datasets", std::move(datasets)}};
}

Json model_section(const AttemptFacts& facts) {
  const auto& from = facts.config.from;
  Json json = {{"fingerprint", contract::model_fingerprint(facts.config.model)},
               {"parameters", facts.parameters},
               {"begins_with", from ? from->path : "new weights"}};
  if (from) json["optimizer_state_too"] = from->optimizer;
  return json;
}

Json attempt_of(const AttemptFacts& facts, const MachineFiles& machine, const base::Clock& clock) {
  Json json = Json::object();
  json["number"] = facts.number;
  put(&json, "execution", facts.execution);
  put(&json, "host", facts.host);
  put(&json, "program", facts.program.string());
  put(&json, "slurm_job", facts.slurm_job);
  put(&json, "resumed_from", facts.resumed_from);
  json["started"] = base::iso8601(clock.utc_seconds());
  json["clocks"] = clocks_now(machine);
  return json;
}

}  // namespace

std::string digest_of_file(base::FileSystem& files, const base::Path& path) {
  try {
    return base::digest_of(files.read(path, kMaxProgramBytes));
  } catch (const base::Error&) {
    return "";
  }
}

Json shown_configuration(const contract::RunConfig& config) {
  Json json = base::parse_json<Json>(contract::to_json(config));
  json.erase("name");  // runs that differ by it alone do the same
  const Json::json_pointer environment("/slurm/environment");
  if (!json.contains(environment)) return json;
  for (auto& value : json[environment]) value = nullptr;
  return json;
}

Json environment_of(base::FileSystem& files, const MachineFiles& machine, const base::Clock& clock,
                    const AttemptFacts& facts) {
  Json sections = Json::object();
  sections["build"] = build_of(files, facts);
  sections["machine"] = machine_facts(machine);
  sections["devices"] = devices_of(facts);
  sections["fabric"] = fabric_of(facts);
  sections["variables"] = shown_variables(facts.variables);
  sections["numerics"] = numerics_of(facts);
  sections["randomness"] = {{"generator", "Philox4x32-10, counter = (block, ordinal, step, site)"},
                            {"seed", facts.config.seed}};
  sections["data"] = data_of(facts);
  sections["model"] = model_section(facts);
  sections["configuration"] = shown_configuration(facts.config);
  Json environment = contract::sealed_environment(sections);
  environment["attempt"] = attempt_of(facts, machine, clock);
  return environment;
}

void write_environment(base::FileSystem& files, const base::Path& path, const Json& environment) {
  base::replace_file(files, path, base::json_text(environment, 2) + "\n");
}

void add_training(base::FileSystem& files, const base::Path& path, const MachineFiles& machine,
                  const base::Clock& clock) {
  Json environment =
      contract::parse_environment(files.read(path, contract::kMostEnvironmentBytes), path.string());
  Json training = Json::object();
  training["ended"] = base::iso8601(clock.utc_seconds());
  training["clocks"] = clocks_now(machine);
  const Json::json_pointer begun("/attempt/clocks");
  if (environment.contains(begun)) {
    Json throttled = throttled_between(environment[begun], training["clocks"]);
    if (!throttled.empty()) training["throttled"] = std::move(throttled);
    if (const auto waited = waited_between(environment[begun], training["clocks"])) {
      training["waited_percent"] = *waited;
    }
  }
  environment["training"] = std::move(training);
  write_environment(files, path, environment);
}

}  // namespace regatta::trainer::plugins
