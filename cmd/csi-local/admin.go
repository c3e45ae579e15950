package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/orphans"
)

// The calls of the admin socket: HTTP and JSON, for the commands of this program
// only. Both ends are of one version, because they are in one image.
const (
	pathOrphans = "/orphans"
	pathAdopt   = "/orphans/adopt"

	paramName         = "name"
	paramStorageClass = "storageClass"
	paramAccessMode   = "accessMode"
	paramVolumeMode   = "volumeMode"
)

// adminError is the body of an answer that is no success.
type adminError struct {
	Error string `json:"error"`
}

func adminHandler(keeper *orphans.Keeper) http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, call func(ctx context.Context, param func(string) string) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			answer, err := call(r.Context(), r.URL.Query().Get)
			code := http.StatusOK
			if err != nil {
				code, answer = adminCode(err), adminError{Error: err.Error()}
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			if err := json.NewEncoder(w).Encode(answer); err != nil {
				klog.FromContext(r.Context()).V(2).Info("Answer could not be sent", "reason", err.Error())
			}
		})
	}
	handle("GET "+pathOrphans, func(ctx context.Context, _ func(string) string) (any, error) { return keeper.List(ctx) })
	handle("GET "+pathAdopt, func(ctx context.Context, param func(string) string) (any, error) {
		v, err := keeper.Find(ctx, param(paramName))
		if err != nil {
			return nil, err
		}
		return keeper.Adopt(v, orphans.Adoption{
			StorageClass: param(paramStorageClass),
			AccessMode:   v1.PersistentVolumeAccessMode(param(paramAccessMode)),
			VolumeMode:   v1.PersistentVolumeMode(param(paramVolumeMode)),
		})
	})
	handle("DELETE "+pathOrphans, func(ctx context.Context, param func(string) string) (any, error) {
		return keeper.Delete(ctx, param(paramName))
	})
	return mux
}

func adminCode(err error) int {
	switch {
	case errors.Is(err, orphans.ErrNotOrphan):
		return http.StatusNotFound
	case errors.Is(err, orphans.ErrExists), errors.Is(err, orphans.ErrChanged):
		return http.StatusConflict
	case errors.Is(err, orphans.ErrDoubt):
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}
