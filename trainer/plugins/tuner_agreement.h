// Which tuner plug-in NCCL gets: the plan's, where every rank has the very same
// plan, plug-in and NCCL; else none on any rank. Ranks that are tuned apart choose apart, and hang.
#pragma once

#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/unique_fd.h"
#include "trainer/plugins/plugin_loader.h"
#include "trainer/ranks/host_collectives.h"
#include "trainer/ranks/rendezvous.h"

namespace regatta::trainer::plugins {

// What one rank could give to NCCL.
struct TunerOffer {
  // For the other ranks to compare, at most 255 bytes: "none", "own …" (the user has set
  // NCCL_TUNER_PLUGIN), "no …" (a plan that cannot be used, and why), or "terms …" (digests of plan
  // and plug-in, and NCCL's version).
  std::string text = "none";
  std::string plugin;   // its path
  base::UniqueFd plan;  // a copy in memory: NCCL reads what was agreed on, whatever becomes of the
                        // file meanwhile
};

// `plan`: the run's plan.tuner, which need not be there. nccl_version: of the library that is
// loaded, 22809 for 2.28.9. Never throws for what is wrong with plan or plug-in: the text says it.
[[nodiscard]] TunerOffer tuner_offer(base::FileSystem& files, const base::Path& plan,
                                     const PluginPlace& plugins, const ranks::Variables& variables,
                                     int ranks, int nccl_version);

struct TunerVerdict {
  enum class Action {
    Leave,  // no rank has a plan, or all have the user's own plug-in
    Give,
    Unset,  // NCCL_TUNER_PLUGIN, on all ranks
  } action = Action::Leave;
  std::string warning;  // one line, why a plan that is there is not used; else ""
};

// From every rank's text, in rank order.
[[nodiscard]] TunerVerdict judge_offers(const std::vector<std::string>& texts);

// Sets the variables that NCCL and the plug-in read, or unsets NCCL_TUNER_PLUGIN. Before NCCL makes
// its first communicator, with no other thread about that reads the environment. The offer lives as
// long as communicators are made.
void act_on(const TunerVerdict& verdict, const TunerOffer& offer);

}  // namespace regatta::trainer::plugins
