package server

import (
	"context"
	"net/http"
)

// fleet answers once, for scripts. Queries such as scope=tenant=acme select the tenant of policies per tenant.
func (h *Handler) fleet(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	f := h.feedOf(w, query.Get("upstream"))
	if f == nil {
		return
	}
	opts, _, err := scopesOf(query["scope"], f.source.Policies())
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	snapshot, err := f.source.Snapshot(ctx, opts...)
	if err != nil {
		fail(w, statusOf(err), err)
		return
	}
	answer(w, http.StatusOK, snapshot)
}
