// What schemas.cc and machine_schemas.cc make schemas of.
#pragma once

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace regatta::orchestrator::api::forms {

using Json = nlohmann::ordered_json;
using Properties = std::initializer_list<std::pair<const char*, Json>>;

[[nodiscard]] Json of_type(const char* type);
[[nodiscard]] Json integer();
[[nodiscard]] Json any_number();
[[nodiscard]] Json text();
[[nodiscard]] Json flag();
[[nodiscard]] Json any_moment();
[[nodiscard]] Json any_object();
[[nodiscard]] Json list_of(Json items);
[[nodiscard]] Json one_of(const std::vector<std::string>& words);
[[nodiscard]] Json or_null(Json schema);
// An array of exactly these.
[[nodiscard]] Json tuple_of(std::initializer_list<Json> items);
void add(Json* schema, const std::string& key, Json value);
// Without a property, an object has none. All are there but for those of optionally().
[[nodiscard]] Json object(Properties properties);
[[nodiscard]] Json optionally(Json schema, Properties properties);
[[nodiscard]] Json with(Json schema, Properties properties);

}  // namespace regatta::orchestrator::api::forms
