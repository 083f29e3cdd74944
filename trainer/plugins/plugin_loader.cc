#include "trainer/plugins/plugin_loader.h"

#include <dlfcn.h>

#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace regatta::trainer::plugins {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw base::Error(base::Code::Operator, message);
}

std::string name_of(const base::Path& path) { return base::printable(path.string()); }

std::vector<base::Path> directories(const PluginPlace& place) {
  if (!place.directory.empty()) return {place.directory};
  const base::Path here = place.program.parent_path();
  std::vector<base::Path> all = {here, here.parent_path() / "lib"};
  const base::Path installed = here.parent_path() / REGATTA_LIBRARY_DIRECTORY;
  if (installed != all.back()) all.push_back(installed);
  return all;
}

base::Path find_plugin(const PluginPlace& place, const PluginKind& kind) {
  std::vector<std::string> looked;
  for (const base::Path& directory : directories(place)) {
    std::error_code error;
    const base::Path path = directory / kind.file;
    if (std::filesystem::exists(path, error)) return path;
    looked.push_back(name_of(directory));
  }
  refuse(std::string(kind.what) + "'s " + kind.file + " is not in " + base::join(looked, ", ") +
         "; " + kind.advice);
}

}  // namespace

Plugin::Plugin(const PluginPlace& place, const PluginKind& kind)
    : path_(find_plugin(place, kind)),
      library_(dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
  if (library_ == nullptr) {
    const char* reason = dlerror();
    refuse("cannot load " + name_of(path_) + ": " +
           base::printable(reason == nullptr ? "no reason given" : reason) + "; " + kind.libraries +
           " must be found (LD_LIBRARY_PATH or ldconfig)");
  }
  const std::string found = entry<const char*()>(kind.version_function)();
  if (found != kind.version) {
    refuse(name_of(path_) + " is \"" + base::printable(found) + "\", but this program needs \"" +
           kind.version + "\"; install both from one build");
  }
}

void* Plugin::find(const char* name) const {
  void* address = dlsym(library_, name);
  if (address == nullptr) {
    refuse(name_of(path_) + " is not a plug-in of this program (it has no " + name +
           "); install both from one build");
  }
  return address;
}

}  // namespace regatta::trainer::plugins
