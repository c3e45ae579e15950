package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/csi-local/csi-local/pkg/driver"
)

// serve answers /metrics, /healthz and /readyz until ctx ends.
func (c *controllerProcess) serve(ctx context.Context) error {
	if c.opts.metricsAddress == "" {
		<-ctx.Done()
		return nil
	}
	return serveMetrics(ctx, c.opts.metricsAddress, c.handler())
}

// serveCSI answers csi-resizer until ctx ends.
func (c *controllerProcess) serveCSI(ctx context.Context) error {
	if c.opts.csiEndpoint == "" {
		<-ctx.Done()
		return nil
	}
	listener, err := driver.Listen(ctx, c.opts.csiEndpoint)
	if err != nil {
		return fmt.Errorf("--csi-endpoint: %w", err)
	}
	return driver.ServeCentral(ctx, listener, c.opts.driverName, c.version)
}

func (c *controllerProcess) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(c.registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /healthz", check(c.watchdog.Check))
	mux.Handle("GET /readyz", check(c.ready))
	return mux
}

// errNotSynced: the leader has not seen the cluster yet.
var errNotSynced = errors.New("the caches are being filled")

// ready is true of a process that waits for the lease, too: a rollout must not
// wait for one that another process holds.
func (c *controllerProcess) ready(*http.Request) error {
	if c.leading.Load() && !c.synced.Load() {
		return errNotSynced
	}
	return nil
}

// check answers 200 or, with what is wrong, 503.
func check(healthy func(*http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := "ok\n"
		if err := healthy(r); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			text = err.Error() + "\n"
		}
		_, _ = io.WriteString(w, text) // a client that is gone needs no answer
	})
}
