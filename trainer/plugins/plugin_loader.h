// Finds and opens the plug-ins of regatta-train: shared libraries that link what most machines
// lack.
#pragma once

#include <cstring>
#include <string>

#include "base/file_system.h"

namespace regatta::trainer::plugins {

struct PluginPlace {
  base::Path program;    // the running program: looked for beside it, and in lib directories near
  base::Path directory;  // REGATTA_PLUGIN_DIR: looked for here only; empty: not set
};

struct PluginKind {
  const char* file;              // libregatta-….so
  const char* what;              // "the CUDA device": what it gives
  const char* advice;            // what to do when it is not there
  const char* libraries;         // "CUDA's own libraries": what it links
  const char* version_function;  // of type const char*(), extern "C"
  const char* version;           // that it must return
};

// An opened plug-in of the right version. It stays loaded until the process ends, since the objects
// it makes have their code in it.
class Plugin {
 public:
  // Throws Code::Operator when it is not there (saying where it was looked for), does not load, or
  // is another version's.
  Plugin(const PluginPlace& place, const PluginKind& kind);

  // Throws Code::Operator when there is no such function.
  template <typename Function>
  [[nodiscard]] Function* entry(const char* name) const {
    void* address = find(name);
    Function* function = nullptr;
    static_assert(sizeof function == sizeof address);
    std::memcpy(&function, &address, sizeof function);
    return function;
  }
  [[nodiscard]] const base::Path& path() const { return path_; }

 private:
  [[nodiscard]] void* find(const char* name) const;

  base::Path path_;
  void* library_;
};

}  // namespace regatta::trainer::plugins
