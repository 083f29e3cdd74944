// Which sanitizer this is built with: gcc says so by macros, clang by features.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define REGATTA_ADDRESS_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define REGATTA_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define REGATTA_ADDRESS_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define REGATTA_THREAD_SANITIZER 1
#endif
#endif
