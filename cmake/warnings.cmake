# Warnings are errors, but for compilers that nobody here has seen (TRIREME_WERROR=OFF); the hardening and sanitizer flags of every target.
add_library(trireme_flags INTERFACE)
target_compile_options(trireme_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra $<$<BOOL:${TRIREME_WERROR}>:-Werror> -Wvla -Walloca -Wshadow -Wpointer-arith -Wstrict-prototypes
    -Wmissing-prototypes -Wformat=2 -Wundef -Wno-unused-parameter -fno-math-errno -ffp-contract=off -fno-omit-frame-pointer>)
target_compile_definitions(trireme_flags INTERFACE _GNU_SOURCE=1 TRIREME_VERSION="${PROJECT_VERSION}")

if(TRIREME_SANITIZE STREQUAL "address")
  target_compile_options(trireme_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all)
  target_link_options(trireme_flags INTERFACE -fsanitize=address,undefined)
elseif(TRIREME_SANITIZE STREQUAL "thread")
  target_compile_options(trireme_flags INTERFACE -fsanitize=thread)
  target_link_options(trireme_flags INTERFACE -fsanitize=thread)
else()
  target_compile_options(trireme_flags INTERFACE -fstack-protector-strong -fstack-clash-protection)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(trireme_flags INTERFACE -fcf-protection)
  endif()
  target_compile_definitions(trireme_flags INTERFACE $<$<NOT:$<CONFIG:Debug>>:_FORTIFY_SOURCE=2>)
  target_link_options(trireme_flags INTERFACE -Wl,-z,relro,-z,now)
endif()

if(TRIREME_FUZZ) # libFuzzer is guided by what our own code reaches
  target_compile_options(trireme_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(trireme_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
