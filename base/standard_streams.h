// The three streams that a program is started with.
#pragma once

namespace regatta::base {

// First thing in main: where a standard stream is closed, something takes its number that reading
// from it, or writing to it, fails on. Else the next file to be opened would be printed into.
void hold_standard_streams();

// Last thing in main: throws Code::Operator where something of what was printed did not get to
// standard output: a full disk, a closed stream. A reader that went away (`| head`) has enough.
void finish_output();

}  // namespace regatta::base
