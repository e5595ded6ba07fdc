// A piece that could not be read, for whoever has to say so.
#pragma once

#include <cstdint>

namespace headrace {

// `error` is the errno, or 0 where the file ended; `got` its bytes that were there.
struct Failure {
    std::int64_t id;
    std::int32_t part;
    std::int32_t file;
    std::int64_t offset;
    std::int64_t nbytes;
    std::int32_t error;
    std::int32_t step;
    std::int64_t got;
};

}  // namespace headrace
