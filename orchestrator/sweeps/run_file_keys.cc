#include "orchestrator/sweeps/run_file_keys.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "trainer/contract/run_schema.h"

namespace regatta::orchestrator::sweeps {
namespace {

using Json = nlohmann::ordered_json;

void add_keys(const Json& mapping, const std::string& path, std::vector<std::string>* keys) {
  for (const auto& [name, schema] : mapping.at("properties").items()) {
    if (schema.value("deprecated", false)) continue;
    if (schema.contains("properties")) {
      add_keys(schema, path + name + ".", keys);
    } else if (!schema.contains("items") && schema.value("type", Json()) != Json("object")) {
      keys->push_back(path + name);
    }
  }
}

}  // namespace

std::vector<std::string> run_file_keys() {
  std::vector<std::string> keys;
  add_keys(base::parse_json<Json>(trainer::contract::run_file_schema()), "", &keys);
  std::erase(keys, "name");
  return keys;
}

}  // namespace regatta::orchestrator::sweeps
