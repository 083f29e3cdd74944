// replay DIRECTORY: every file of it through the fuzz target that this is linked with, without a
// fuzzer. The name of each is printed first, so that the last line tells which one ended it.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY\n", arguments[0]);
    return 2;
  }
  try {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(arguments[1])) {
      files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const auto& path : files) {
      std::puts(path.filename().c_str());
      std::fflush(stdout);
      std::ifstream file(path, std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
      if (!file.is_open()) throw std::runtime_error("cannot read " + path.string());
      // A copy of just this size, so that a sanitizer sees what reads past it.
      const std::vector<std::uint8_t> exact(bytes.begin(), bytes.end());
      (void)LLVMFuzzerTestOneInput(exact.data(), exact.size());
    }
    if (files.empty()) throw std::runtime_error(std::string("no file in ") + arguments[1]);
    std::printf("%zu files\n", files.size());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
