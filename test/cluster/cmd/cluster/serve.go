package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/csi-local/csi-local/test/cluster"
)

// state is what other processes need to know of a running cluster.
type state struct {
	// PID is a process in the cluster's network.
	PID                                  int
	Kubectl, Kubeconfig, Manifests, Logs string
}

const (
	stateName  = "state.json"
	socketName = "control"
)

// serve is the cluster until it is asked to end.
func serve(ctx context.Context, dir string, args []string) (err error) {
	if len(args) != 1 {
		return errUsage
	}
	nodes, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	if err := cluster.Enter(ctx, os.Stderr); err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Options{Nodes: nodes, Folder: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	content, err := json.Marshal(state{
		PID: os.Getpid(), Kubectl: c.KubectlPath(), Kubeconfig: c.Kubeconfig(), Manifests: c.Manifests(""), Logs: c.LogDir(),
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, stateName), content, 0o600); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(dir, socketName))
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	server := &http.Server{Handler: handler(c, end), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // it ends with Close
	<-ctx.Done()
	return server.Close()
}

// handler does what the commands of other processes ask for.
func handler(c *cluster.Cluster, end func()) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /down", func(http.ResponseWriter, *http.Request) { end() })
	mux.HandleFunc("GET /ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /nodes/{name}/{verb}", func(w http.ResponseWriter, r *http.Request) {
		answer, err := onNode(r.Context(), c, r.PathValue("name"), r.PathValue("verb"), r.URL.Query()["arg"])
		var failed *cluster.CommandError
		switch {
		case errors.As(err, &failed):
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(failed) // whoever asked has gone
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			_, _ = fmt.Fprint(w, answer)
		}
	})
	return mux
}

func onNode(ctx context.Context, c *cluster.Cluster, name, verb string, args []string) (string, error) {
	for _, n := range c.Nodes() {
		if n.Name() != name {
			continue
		}
		switch verb {
		case "run":
			return n.Run(ctx, args...)
		case "power-cut":
			return "", n.PowerCut()
		case "start":
			return "", errors.Join(n.Start(ctx), n.WaitReady(ctx))
		case "reboot":
			return "", n.Reboot(ctx)
		case "replace":
			return "", errors.Join(n.Replace(ctx), n.WaitReady(ctx))
		case "cut-network":
			return "", n.CutNetwork()
		case "restore-network":
			return "", n.RestoreNetwork()
		}
		return "", fmt.Errorf("a node cannot be asked to %q", verb)
	}
	return "", fmt.Errorf("there is no node %q", name)
}
