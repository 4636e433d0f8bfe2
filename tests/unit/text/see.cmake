list(APPEND SEE formats)
list(APPEND TEST_LIBS PkgConfig::PCRE2)
