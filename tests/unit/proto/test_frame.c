#include "check.h"
#include "proto/frame.h"

static const struct epoch EPOCH = {1700000000000u, {3, 4}};

TEST(frame_comes_back) {
    uint8_t header[FRAME_BYTES];
    struct bytes payload = bytes_str("some payload");
    struct frame frame;
    frame_write(header, WIRE_PLAN, EPOCH, payload);
    EXPECT(memcmp(header, "TRM1\x01", 5) == 0);
    EXPECT_EQ(frame_read(bytes_of(header, FRAME_BYTES), payload, &frame), 0);
    EXPECT_EQ(frame.kind, WIRE_PLAN);
    EXPECT_EQ(epoch_compare(frame.epoch, EPOCH), 0);
    frame_write(header, WIRE_DRAIN, EPOCH, (struct bytes){0});
    EXPECT_EQ(frame_read(bytes_of(header, FRAME_BYTES), (struct bytes){0}, &frame), 0);
}

/* The version of a later build is told, and is no reason to refuse. */
TEST(frame_tells_the_minor_version) {
    struct frame frame;
    struct bytes payload = bytes_of("payload", 7);
    uint8_t header[FRAME_BYTES];
    frame_write(header, 7, (struct epoch){3, {1, 2}}, payload);
    header[5] = 77; /* behind the four bytes of the magic number and the major version */
    EXPECT_EQ(frame_read(bytes_of(header, FRAME_BYTES), payload, &frame), 0);
    EXPECT_EQ(frame.minor, 77);
}

TEST(frame_refuses_what_is_wrong) {
    uint8_t header[FRAME_BYTES], wrong[FRAME_BYTES];
    struct bytes payload = bytes_str("some payload");
    struct frame frame;
    frame_write(header, WIRE_PLAN, EPOCH, payload);
    EXPECT_EQ(frame_read(bytes_of(header, FRAME_BYTES - 1), payload, &frame), ERR_INVALID);
    EXPECT_EQ(frame_read(bytes_of(header, FRAME_BYTES), bytes_str("some payloaf"), &frame),
              ERR_INVALID);
    EXPECT_EQ(frame_read(bytes_of(header, FRAME_BYTES), bytes_str("some"), &frame), ERR_INVALID);
    EXPECT_EQ(frame_read((struct bytes){0}, payload, &frame), ERR_INVALID);
    memcpy(wrong, header, FRAME_BYTES);
    wrong[4]++;
    EXPECT_EQ(frame_read(bytes_of(wrong, FRAME_BYTES), payload, &frame), ERR_UNSUPPORTED);
    memcpy(wrong, header, FRAME_BYTES);
    wrong[5]++; /* a newer minor, */
    wrong[6] = 200;
    wrong[44] = 1; /* a kind and a reserved field from the future: readable */
    EXPECT_EQ(frame_read(bytes_of(wrong, FRAME_BYTES), payload, &frame), 0);
    EXPECT_EQ(frame.minor, FRAME_MINOR + 1);
    EXPECT_EQ(frame.kind, 200);
}

TEST(frame_epochs_are_totally_ordered) {
    struct epoch a = {5, {1, 0}}, b = {5, {2, 0}}, c = {5, {0, 1}}, d = {6, {0, 0}},
                 none = {0, {0, 0}};
    const struct epoch order[] = {none, a, b, c, d};
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        for (size_t k = 0; k < ARRAY_LEN(order); k++) {
            int got = epoch_compare(order[i], order[k]);
            EXPECT_EQ((got > 0) - (got < 0), (i > k) - (i < k));
        }
}
