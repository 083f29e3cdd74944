#include "orchestrator/api/page.h"

#include "base/digest.h"
#include "base/error.h"
#include "base/text.h"

namespace regatta::orchestrator::api {
namespace {

constexpr std::uint64_t kMaxFile = std::uint64_t{16} << 20U;

struct FoundFile {
  std::string bytes;
  std::string content_type;
  std::string digest;
};

std::string content_type_of(const base::Path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".html") return "text/html; charset=utf-8";
  if (extension == ".js") return "text/javascript; charset=utf-8";
  if (extension == ".css") return "text/css; charset=utf-8";
  if (extension == ".svg") return "image/svg+xml";
  if (extension == ".json" || extension == ".map") return "application/json";
  if (extension == ".png") return "image/png";
  if (extension == ".ico") return "image/x-icon";
  if (extension == ".woff2") return "font/woff2";
  return "application/octet-stream";
}

// Only letters, digits, '.', '_', '-' between slashes, and no part that begins with a dot.
bool is_plain(const std::string& path) {
  for (const std::string& part : base::split(path, '/')) {
    if (part.empty() || part.front() == '.') return false;
    for (const char c : part) {
      const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
      if (!good) return false;
    }
  }
  return true;
}

std::optional<FoundFile> find(const std::string& path, const base::Path& directory) {
  if (!is_plain(path)) return std::nullopt;
  if (directory.empty()) {
    const auto file = page_file(path);
    if (!file) return std::nullopt;
    return FoundFile{std::string(file->bytes), std::string(file->content_type),
                     std::string(file->digest)};
  }
  try {
    FoundFile found;
    found.bytes = base::posix_file_system().read(directory / path, kMaxFile);
    found.content_type = content_type_of(path);
    found.digest = base::digest_of(found.bytes);
    return found;
  } catch (const base::Error&) {
    return std::nullopt;
  }
}

// "app-40962abeb5e8.js": eight or more hexadecimal digits between the last '-' and the extension.
bool has_hash(const std::string& path) {
  const std::size_t dash = path.rfind('-');
  const std::size_t dot = path.rfind('.');
  if (dash == std::string::npos || dot == std::string::npos || dot < dash + 9) return false;
  return path.substr(dash + 1, dot - dash - 1).find_first_not_of("0123456789abcdef") ==
         std::string::npos;
}

}  // namespace

Response serve_page(const Request& request, const base::Path& directory) {
  std::string path = request.path.empty() ? "" : request.path.substr(1);
  if (path.empty()) path = "index.html";
  std::optional<FoundFile> found = find(path, directory);
  const bool wants_page = request.header("accept").find("text/html") != std::string::npos;
  if (!found && wants_page && path.find('.') == std::string::npos) {
    path = "index.html";
    found = find(path, directory);
  }
  Response response;
  if (!found) {
    response.content_type = "text/plain; charset=utf-8";
    if (path == "index.html") {
      response.body =
          "The page was not built into this regatta (web/build.sh, then build again).\n"
          "The API is under /api/v1, and 'regatta watch' shows a run in the terminal.\n";
    } else {
      response.status = 404;
      response.body = "not found\n";
    }
    return response;
  }
  response.headers["ETag"] = "\"" + found->digest + "\"";
  response.headers["Cache-Control"] =
      has_hash(path) ? "public, max-age=31536000, immutable" : "no-cache";
  response.content_type = found->content_type;
  response.body = std::move(found->bytes);
  return response;
}

}  // namespace regatta::orchestrator::api
