// TPE: tree-structured Parzen estimators (Bergstra et al., Algorithms for Hyper-Parameter
// Optimization, NeurIPS 2011, section 4), of all parameters together (Falkner et al., BOHB, ICML
// 2018, section 3.2), and for every third trial of each parameter alone, as in the paper.
#pragma once

#include "orchestrator/sweeps/history.h"

namespace regatta::orchestrator::sweeps {

inline constexpr int kTpeRandomTrials = 10;  // with an objective, before anything is estimated
inline constexpr int kTpeCandidates = 24;    // drawn for each trial
// γ: the share of trials that count as good, ⌈γ·n⌉, and how many do at most (hyperopt's bound).
inline constexpr int kTpeGoodPercent = 15;
inline constexpr int kTpeMostGood = 25;
// Trials whose number is a multiple of this take each parameter by densities of its own.
inline constexpr int kTpeAloneEvery = 3;

// Values for the trial of this number. With y* between the good trials and the others,
// l(x) = p(x | y better than y*), g(x) = p(x | the others); expected improvement grows with
// l(x)/g(x) (section 4.1), so of the candidates drawn from l that with the greatest ratio is taken.
// Random values while fewer than kTpeRandomTrials have an objective; an
// objective that is not finite is one, the worst.
[[nodiscard]] SweepValues tpe_values(const Sweep& sweep, const SweepHistory& history, int trial);

}  // namespace regatta::orchestrator::sweeps
