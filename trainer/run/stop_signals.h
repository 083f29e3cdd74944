#pragma once

namespace regatta::trainer::run {

// What signals have asked for. TERM and INT: write a checkpoint and stop. USR2: write a checkpoint
// and go on. A second TERM or INT changes nothing: stopping is already as fast as is safe.
struct Requests {
  bool stop = false;
  bool checkpoint = false;
};

// Takes these signals over for the process; called once, from main, before any thread exists. USR1
// is TERM for ranks under mpirun, which hands on the one but not the other.
void catch_stop_signals();
// From now on, the end of process `launcher` is a request to stop.
void stop_with(long launcher);
// What was asked since the last call; `stop` stays set for ever.
[[nodiscard]] Requests take_requests();

}  // namespace regatta::trainer::run
