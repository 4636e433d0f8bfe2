# The gateway's unit tests, the quick ones first; the first line of each patch names the test that should catch it.
TARGETS="test_gateway_delivery test_gateway_fields test_gateway_parts test_gateway_choice test_gateway_render test_gateway_gateway"
CLEAN='for t in delivery fields parts choice render gateway; do "$BUILD/bin/test_gateway_$t" || exit 1; done'
COMMAND=$CLEAN
