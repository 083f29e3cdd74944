#include "orchestrator/cli/input.h"

#include <filesystem>
#include <iostream>
#include <iterator>
#include <system_error>

#include "base/error.h"
#include "base/file_system.h"
#include "base/text.h"

namespace regatta::orchestrator::cli {

std::string read_input(const std::string& file, std::uint64_t max_bytes) {
  if (file != "-") {
    std::error_code unknown;  // which the read tells
    if (std::filesystem::is_directory(file, unknown)) {
      throw base::Error(base::Code::User, base::printable(file) + " is a directory; name a file");
    }
    return base::posix_file_system().read(file, max_bytes);
  }
  const std::string text{std::istreambuf_iterator<char>(std::cin),
                         std::istreambuf_iterator<char>()};
  return text.substr(0, max_bytes + 1);
}

std::string input_name(const std::string& file) { return file == "-" ? "stdin" : file; }

}  // namespace regatta::orchestrator::cli
