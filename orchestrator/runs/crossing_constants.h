// Constants of crossing.cc, fitted by tests/bench/crossing_fit.py on 1,576 distinct BERT curves of
// MLPerf Training v2.0, v2.1, v3.1, v4.0 and v4.1 (mlcommons/training_results_v*, successful runs):
//   tests/bench/crossing_fit.py ../shared/data/mlperf_logs/curves.jsonl
// A test compares them with a new fit where these curves are there.
#pragma once

#include <array>

namespace regatta::orchestrator::runs {

inline constexpr double kMlperfTarget = 0.72;
inline constexpr double kMlperfTargetNear = 0.002;
inline constexpr double kWidestGap = 0.51;  // of a first evaluation

// ln of the gap 1 − best / target.
inline constexpr std::array<double, 13> kGapKnots = {-7.6009, -6.2146, -5.5215, -4.9618, -4.4228,
                                                     -3.9120, -2.9957, -1.6094, -1.0498, -0.8675,
                                                     -0.7985, -0.7550, -0.6931};

// ln(T / t) = kLevel + kPerCount · ln(evaluations so far), each linear between the knots.
inline constexpr std::array<double, 13> kLevel = {0.1944, 0.3300, 0.5279, 0.9825, 1.5118,
                                                  2.1201, 2.3743, 2.4785, 2.8069, 2.7313,
                                                  2.9329, 2.8796, 2.4427};
inline constexpr std::array<double, 13> kPerCount = {-0.0475, -0.0594, -0.0831, -0.1975, -0.3439,
                                                     -0.5774, -0.7108, -0.7449, -0.9714, -0.8736,
                                                     -1.1465, -1.1093, -1.1805};

// 10 % and 90 % quantiles of what remains of ln(T / t).
inline constexpr std::array<double, 13> kLowRest = {-0.0336, -0.0468, -0.0654, -0.0851, -0.1070,
                                                    -0.1520, -0.1933, -0.1684, -0.1623, -0.1843,
                                                    -0.1748, -0.2039, -0.7038};
inline constexpr std::array<double, 13> kHighRest = {0.0364, 0.0489, 0.0617, 0.0848, 0.1167,
                                                     0.1695, 0.1950, 0.1713, 0.1945, 0.2057,
                                                     0.2169, 0.3324, 0.2761};

// How many evaluations the runs had had near each knot.
inline constexpr std::array<double, 13> kFewestEvaluations = {8, 8, 6, 4, 3, 2, 2,
                                                              2, 1, 2, 1, 1, 1};
inline constexpr std::array<double, 13> kMostEvaluations = {27, 26, 24, 22, 17, 14, 11,
                                                            10, 8,  7,  6,  5,  3};

// ln of how far away, in ln t, the line meets the target; and 7, 50 and 93 % quantiles of ln(T /
// t). Wider than 80 % on average, so that no shape of curve falls below 70 %.
inline constexpr std::array<double, 9> kDistanceKnots = {
    -3.9120, -2.9957, -2.3026, -1.6094, -0.9163, -0.2231, 0.4700, 1.1632, 2.3026};
inline constexpr std::array<double, 9> kDistanceLow = {0.0519, 0.0478, 0.0770, 0.1332, 0.2624,
                                                       0.4772, 0.6791, 0.6788, 0.7374};
inline constexpr std::array<double, 9> kDistanceCentre = {0.1522, 0.1014, 0.1542, 0.2652, 0.4762,
                                                          0.8303, 1.2040, 1.2937, 1.4663};
inline constexpr std::array<double, 9> kDistanceHigh = {0.6040, 0.3677, 0.3799, 0.5390, 0.9499,
                                                        1.6094, 2.0141, 2.2618, 2.3317};

inline constexpr double kFarthestDistance = 10;  // beyond this a line says nothing

}  // namespace regatta::orchestrator::runs
