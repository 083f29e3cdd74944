// What another machine may have otherwise: its locale, time zone and mask of file modes; and a
// corpus in which each of them would show.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <clocale>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <locale>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "base/process.h"
#include "tests/base/faulty_file_system.h"
#include "tests/trainer/data/prepared.h"

namespace regatta::tests {

// Words whose lower case, order or digits a locale has its own opinion of.
[[nodiscard]] inline std::string travelling_text(int documents) {
  std::string text = documents_text(0, documents);
  for (int i = 0; i < documents; ++i) {
    text += "Istanbul İZMİR ılık TITLE " + std::to_string(1000 * i) + " 1,5 1.5\n";
    text +=
        "Straße Ärger ΟΔΟΣ ß caf\u00E9 cafe\u0301 漢字 na\u00EFve " + std::to_string(i) + "\n\n";
  }
  return text;
}

// A variable of the environment, for as long as this lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    const char* const before = std::getenv(name);
    if (before != nullptr) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// Compiles `name` ("tr_TR") below `directory`, for LOCPATH; false, where the machine has no sources
// of locales.
[[nodiscard]] inline bool make_locale(const base::Path& directory, const std::string& name) {
  constexpr double kSeconds = 200;
  if (std::filesystem::exists(directory / (name + ".UTF-8"))) return true;
  base::Command command;
  command.arguments = {"localedef", "-i",    name,
                       "-f",        "UTF-8", (directory / (name + ".UTF-8")).string()};
  try {
    (void)base::run(command, kSeconds);  // warnings are exit code 1
  } catch (const base::Error&) {
    return false;  // no localedef
  }
  return std::filesystem::exists(directory / (name + ".UTF-8") / "LC_NUMERIC");
}

inline void say_no_locale(const std::string& name) {
  GTEST_LOG_(WARNING) << "not tried in " << name
                      << ": this machine has no localedef, or no sources of locales";
}

// A program that has called setlocale(), and C++'s, for as long as this lives.
class Locale {
 public:
  Locale(const base::Path& directory, const std::string& name)
      : path_("LOCPATH", directory.string()) {
    const std::string whole = name + ".UTF-8";
    EXPECT_NE(std::setlocale(LC_ALL, whole.c_str()), nullptr);
    std::locale::global(std::locale(whole));
    EXPECT_STREQ(std::localeconv()->decimal_point, ",");
  }
  ~Locale() {
    std::locale::global(std::locale::classic());
    std::setlocale(LC_ALL, "C");
  }
  Locale(const Locale&) = delete;
  Locale& operator=(const Locale&) = delete;

 private:
  Variable path_;
};

class FileMask {
 public:
  explicit FileMask(mode_t mask) : before_(::umask(mask)) {}
  ~FileMask() { ::umask(before_); }
  FileMask(const FileMask&) = delete;
  FileMask& operator=(const FileMask&) = delete;

 private:
  mode_t before_;
};

class TimeZone {
 public:
  explicit TimeZone(const std::string& zone) : zone_("TZ", zone) { ::tzset(); }

 private:
  Variable zone_;
};

// Calls make(name) under every condition that needs nothing but this process; locales where the
// machine has their sources, and says so where it has not.
inline void for_each_condition(const std::function<void(const std::string& name)>& make) {
  make("as it is");
  for (const char* zone : {"Asia/Kathmandu", "America/St_Johns", "UTC0", ":nowhere"}) {
    const TimeZone condition(zone);
    make(std::string("time zone ") + zone);
  }
  for (const mode_t mask : {mode_t{0}, mode_t{077}, mode_t{027}}) {
    const FileMask condition(mask);
    make("umask " + std::to_string(mask));
  }
  static const TemporaryDirectory locales;  // compiling one takes a second
  for (const char* name : {"de_DE", "tr_TR"}) {
    if (!make_locale(locales.path(), name)) {
      say_no_locale(name);
      continue;
    }
    const Locale condition(locales.path(), name);
    make(std::string("locale ") + name);
  }
}

// The files of a dataset, with what is counted of the input's bytes taken out of the manifest.
[[nodiscard]] inline std::map<std::string, std::string> files_but_text_bytes(
    const base::Path& dataset) {
  std::map<std::string, std::string> files = files_of(dataset);
  std::string& manifest = files.at("dataset.json");
  const std::size_t at = manifest.find("\"text_bytes\"");
  manifest.erase(at, manifest.find('\n', at) - at);
  return files;
}

}  // namespace regatta::tests
