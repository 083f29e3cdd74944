#include "trainer/plugins/tuner_agreement.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/digest.h"
#include "base/error.h"
#include "base/text.h"
#include "trainer/plugins/environment.h"

namespace regatta::trainer::plugins {
namespace {

constexpr std::uint64_t kMostPlanBytes = std::uint64_t{1} << 20;
constexpr std::size_t kMostTextBytes = 200;  // of a text that other ranks get
constexpr int kMinor = 100;                  // 22809 / 100: 2.28

// As topology/tuner/nccl_tuner.h declares it.
using Complaint = const char*(const void* file, std::size_t size, int* ranks, int* nccl_version);

Plugin load_tuner(const PluginPlace& plugins) {
  return Plugin(plugins, {"libnccl-tuner-regatta.so", "NCCL's tuner",
                          "install it with regatta-train, or name its directory in "
                          "REGATTA_PLUGIN_DIR",
                          "libc", "regatta_tuner_version", "regatta-tuner 1 of " REGATTA_VERSION});
}

const char* value_of(const ranks::Variables& variables, const char* name) {
  const char* value = variables ? variables(name) : nullptr;
  return value == nullptr ? "" : value;
}

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / kMinor % kMinor);
}

// Why NCCL or the plug-in would not obey a plan; "": they would.
std::string why_overridden(const ranks::Variables& variables) {
  for (const char* name : {"NCCL_ALGO", "NCCL_PROTO"}) {
    if (*value_of(variables, name) != '\0') return std::string(name) + " is set";
  }
  if (std::string(value_of(variables, "REGATTA_TUNER")) == "off") return "REGATTA_TUNER is off";
  return "";
}

base::UniqueFd copy_in_memory(const std::string& bytes) {
  base::UniqueFd copy(memfd_create("plan.tuner", MFD_CLOEXEC));
  if (copy.get() < 0) base::throw_errno(errno, "keeping plan.tuner in memory");
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = write(copy.get(), bytes.data() + done, bytes.size() - done);
    if (wrote < 0) base::throw_errno(errno, "keeping plan.tuner in memory");
    done += static_cast<std::size_t>(wrote);
  }
  return copy;
}

[[noreturn]] void refuse_plan(const std::string& why) { throw base::Error(base::Code::User, why); }

TunerOffer offer_of(base::FileSystem& files, const base::Path& path, const PluginPlace& plugins,
                    int ranks, int nccl_version) {
  const std::string plan = files.read(path, kMostPlanBytes);
  const Plugin plugin = load_tuner(plugins);
  int plan_ranks = 0, plan_nccl = 0;
  const char* const complaint = plugin.entry<Complaint>("regatta_tuner_complaint")(
      plan.data(), plan.size(), &plan_ranks, &plan_nccl);
  if (complaint != nullptr) refuse_plan(std::string("plan.tuner ") + complaint + "; plan again");
  if (plan_ranks != ranks) {
    refuse_plan("plan.tuner is for " + std::to_string(plan_ranks) + " ranks, not " +
                std::to_string(ranks) + "; plan again");
  }
  if (plan_nccl != 0 && plan_nccl / kMinor != nccl_version / kMinor) {
    refuse_plan("plan.tuner is for NCCL " + version_text(plan_nccl) + ", and this is " +
                version_text(nccl_version) + "; plan again");
  }
  TunerOffer offer;
  offer.plugin = std::filesystem::absolute(plugin.path()).string();
  offer.plan = copy_in_memory(plan);
  offer.text = "terms " + base::digest_of(plan) + " " + digest_of_file(files, offer.plugin) + " " +
               std::to_string(nccl_version);
  return offer;
}

bool starts(const std::string& text, std::string_view with) {
  return std::string_view(text).substr(0, with.size()) == with;
}

// What keeps the ranks from one tuner, of the lowest rank that shows it.
std::string difference(const std::vector<std::string>& texts) {
  for (const char* kind : {"own", "no ", "none"}) {
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      const std::string& text = texts[rank];
      if (!starts(text, kind)) continue;
      const std::string who = "rank " + std::to_string(rank) + " ";
      if (starts(text, "own")) return who + "has a NCCL_TUNER_PLUGIN of its own, which is unset";
      return text == "none" ? who + "sees no plan.tuner" : who + "says: " + text.substr(3);
    }
  }
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    return "rank " + std::to_string(rank) + " has another plan.tuner, plug-in or NCCL than rank 0";
  }
  return "";
}

}  // namespace

TunerOffer tuner_offer(base::FileSystem& files, const base::Path& plan, const PluginPlace& plugins,
                       const ranks::Variables& variables, int ranks, int nccl_version) {
  TunerOffer offer;
  const std::string own = value_of(variables, "NCCL_TUNER_PLUGIN");
  const bool is_there = files.exists(plan);
  if (!own.empty()) {
    offer.text = std::string("own ") + (is_there ? "plan " : "none ") +
                 base::printable(own).substr(0, kMostTextBytes);
    return offer;
  }
  if (!is_there) return offer;
  try {
    const std::string why = why_overridden(variables);
    if (!why.empty()) refuse_plan(why);
    return offer_of(files, plan, plugins, ranks, nccl_version);
  } catch (const base::Error& error) {
    offer.text = "no " + std::string(error.what()).substr(0, kMostTextBytes);
  }
  return offer;
}

TunerVerdict judge_offers(const std::vector<std::string>& texts) {
  const bool any_plan = std::any_of(texts.begin(), texts.end(), [](const std::string& text) {
    return text != "none" && !starts(text, "own none");
  });
  if (!any_plan) return {};
  const bool alike =
      std::count(texts.begin(), texts.end(), texts[0]) == static_cast<std::ptrdiff_t>(texts.size());
  if (alike && starts(texts[0], "terms ")) return {TunerVerdict::Action::Give, ""};
  if (alike && starts(texts[0], "own ")) {
    return {TunerVerdict::Action::Leave,
            "plan.tuner is not used: NCCL_TUNER_PLUGIN is set on all ranks, and stays"};
  }
  return {TunerVerdict::Action::Unset,
          "plan.tuner is not used, NCCL chooses by itself: " + difference(texts)};
}

void act_on(const TunerVerdict& verdict, const TunerOffer& offer) {
  if (verdict.action == TunerVerdict::Action::Unset) unsetenv("NCCL_TUNER_PLUGIN");
  if (verdict.action != TunerVerdict::Action::Give) return;
  const std::string copy = "/proc/self/fd/" + std::to_string(offer.plan.get());
  const std::pair<const char*, std::string> variables[] = {
      {"REGATTA_TUNER_FILE", copy}, {"REGATTA_TUNER", "on"}, {"NCCL_TUNER_PLUGIN", offer.plugin}};
  for (const auto& [name, value] : variables) {
    base::check(setenv(name, value.c_str(), 1) == 0, "a variable can be set");
  }
}

}  // namespace regatta::trainer::plugins
