#include "gateway/calls/call.h"

#include "gateway/link/scheduler_link.h"
#include "gateway/prompts/prepare.h"

int call_find_model(struct gateway *gw, struct bytes name, struct served_model **out,
                    struct api_error *err) {
    *out = NULL;
    enum model_found found = model_table_find(gw->models, name, out);
    if (found == MODEL_NOT_READY)
        scheduler_link_want(gw->link, name);
    return found == MODEL_READY ? 0 : prepare_refuse_model(found, name, err);
}
