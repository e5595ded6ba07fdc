// How is a copy from a mapped file kept from killing the process? Where a mapped page cannot be had (the file was cut, the
// disk failed), the kernel sends SIGBUS instead of an error code.
//
// While an engine with mapped files is open, a handler for SIGBUS is installed. A fault inside a guarded copy ends that
// copy, which then returns false; any other SIGBUS goes to the handler that was there before.
#pragma once

#include <cstddef>

namespace headrace {

class Guard {  // holds the handler; the first one installs it, the last one puts back what was there
  public:
    Guard();
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
};

void receive_faults();  // in a thread that blocks signals: a blocked SIGBUS would end the process

// Runs `copy(argument)`, which may be cut short anywhere: it must own nothing. False where a page of [from, from + n)
// could not be had.
bool guarded(const std::byte* from, std::size_t n, void (*copy)(void*), void* argument);

}  // namespace headrace
