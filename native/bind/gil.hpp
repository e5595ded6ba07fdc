// The GIL released for a scope. A thread that comes back while the interpreter ends is put to sleep for good, as Python
// does itself from 3.14 on: older versions end it by unwinding its stack, which C++ answers with std::terminate.
#pragma once

#include <nanobind/nanobind.h>

#include <cxxabi.h>
#include <dlfcn.h>
#include <unistd.h>

namespace headrace {

// Python 3.13 made the function public; before, it has an underscore.
inline bool interpreter_ends() {
    using Function = int (*)();
    static const auto function = [] {
        void* found = dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
        return reinterpret_cast<Function>(found != nullptr ? found : dlsym(RTLD_DEFAULT, "_Py_IsFinalizing"));
    }();
    return function != nullptr && function() != 0;
}

class GilReleased {
  public:
    GilReleased() : ending_(interpreter_ends()), state_(PyEval_SaveThread()) {}
    ~GilReleased() {
        while (!ending_ && interpreter_ends()) pause();
        try {
            PyEval_RestoreThread(state_);  // the end may also come while this waits
        } catch (abi::__forced_unwind&) {
            for (;;) pause();
        }
    }
    GilReleased(const GilReleased&) = delete;
    GilReleased& operator=(const GilReleased&) = delete;

  private:
    const bool ending_;  // already: then this is the thread that ends the interpreter
    PyThreadState* const state_;
};

}  // namespace headrace
