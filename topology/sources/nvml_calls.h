// Asks NVML (NVIDIA's management library) everything that the graph wants to know, one line of JSON
// before and one after each call. Runs in a child process: the library of a sick GPU may never
// return from a call, and its parent then knows from the last line which one.
//
//   {"begin": "nvmlDeviceGetName(3)"}
//   {"end": "nvmlDeviceGetName(3)", "code": 0, "value": "NVIDIA H100 80GB HBM3"}
//
// Functions and structures: NVML API Reference Guide, versions named in facts of nvml_calls.cc.
#pragma once

#include <functional>
#include <set>
#include <string>

namespace regatta::topology::sources {

// `library`: libnvidia-ml.so.1, found as the loader does. Calls in `skip` are left out: they hung
// before. Returns 0, or 1 when there is no such library or it does not begin (a line says why:
// {"missing": "…"}).
int ask_nvml(const std::string& library, const std::set<std::string>& skip,
             const std::function<void(const std::string&)>& print);

}  // namespace regatta::topology::sources
