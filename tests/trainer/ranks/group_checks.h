// What groups of a communicator must do, whatever carries them: called on every rank, on host
// memory. Groups of one rank and of none are among those that any number of ranks makes.
#pragma once

#include "trainer/ranks/communicator.h"

namespace regatta::tests {

// Every collective in two groups at once, the even ranks and, backwards, the odd ones, with
// collectives of all ranks between them.
void check_collectives_of_groups(trainer::ranks::Communicator& all);
// Sends and receives go round both groups, and round all ranks at the same time.
void check_messages_in_groups(trainer::ranks::Communicator& all);
// Host values of both groups, in their host() and in a channel.
void check_host_values_of_groups(trainer::ranks::Communicator& all);
// Groups of one rank, none, and groups of groups.
void check_small_groups(trainer::ranks::Communicator& all);
// Wrong members: all ranks throw the same line, and can go on.
void check_refused_groups(trainer::ranks::Communicator& all);

}  // namespace regatta::tests
