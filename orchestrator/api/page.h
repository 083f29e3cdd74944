// The files of the page, embedded at build time (cmake/embed.py) or read from a folder.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/file_system.h"
#include "orchestrator/api/http.h"

namespace regatta::orchestrator::api {

struct PageFile {
  std::string_view bytes;
  std::string_view content_type;
  std::string_view digest;  // of the bytes
};
// By path below the page's root: "index.html", "app-40962abeb5e8.js". Nothing when there is no such
// file; nothing at all when the page was not built.
[[nodiscard]] std::optional<PageFile> page_file(std::string_view path);

// Answers a GET of a path that is not the API's. directory: where the page lies on disk, or empty
// for the embedded one. index.html also answers "/" and, for clients that accept HTML, unknown
// paths without a dot. Files with a hash in their name never change and are cached for ever.
[[nodiscard]] Response serve_page(const Request& request, const base::Path& directory);

}  // namespace regatta::orchestrator::api
