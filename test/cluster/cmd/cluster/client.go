package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csi-local/csi-local/test/cluster"
)

// client asks the process that is the cluster.
type client struct{ dir string }

func (c client) state() (s state, err error) {
	content, err := os.ReadFile(filepath.Join(c.dir, stateName))
	if errors.Is(err, os.ErrNotExist) {
		return s, fmt.Errorf("no cluster runs in %s: cluster up starts one", c.dir)
	}
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(content, &s)
}

// ask returns the answer to a request, and an error if it was a bad one.
func (c client) ask(ctx context.Context, method, path string) ([]byte, error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(c.dir, socketName))
		},
	}}
	request, err := http.NewRequestWithContext(ctx, method, "http://cluster"+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	switch response.StatusCode {
	case http.StatusOK:
		return text, nil
	case http.StatusConflict:
		failed := &cluster.CommandError{}
		return nil, errors.Join(json.Unmarshal(text, failed), failed)
	}
	return nil, errors.New(strings.TrimSpace(string(text)))
}

func (c client) answers(ctx context.Context) bool {
	_, err := c.ask(ctx, http.MethodGet, "/ready")
	return err == nil
}

// down returns when nothing is left, also of a cluster whose process was killed.
func (c client) down(ctx context.Context) error {
	s, err := c.state()
	if err != nil {
		return err
	}
	if _, err := c.ask(ctx, http.MethodPost, "/down"); err != nil && c.answers(ctx) {
		return err
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		// Without its folder the process is at its end.
		if _, err := os.Stat(c.dir); errors.Is(err, os.ErrNotExist) {
			return os.RemoveAll(c.dir + ".log")
		}
		if err := syscall.Kill(s.PID, 0); err != nil {
			return errors.Join(os.RemoveAll(c.dir), os.RemoveAll(c.dir+".log"))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (c client) node(ctx context.Context, name, verb string, args []string) error {
	query := url.Values{"arg": args}
	text, err := c.ask(ctx, http.MethodPost, "/nodes/"+url.PathEscape(name)+"/"+url.PathEscape(verb)+"?"+query.Encode())
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	return err
}

// exec becomes the command, in the cluster's network.
func (c client) exec(command func(state) []string) error {
	s, err := c.state()
	if err != nil {
		return err
	}
	args := command(s)
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	network, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", s.PID))
	if err != nil {
		return fmt.Errorf("the cluster has ended without being asked to; cluster down removes what it left: %w", err)
	}
	// A thread enters the network alone; what it executes takes the place of all.
	runtime.LockOSThread()
	if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering the cluster's network: %w", err)
	}
	env := append(os.Environ(), "KUBECONFIG="+s.Kubeconfig, "KUBECACHEDIR="+filepath.Join(c.dir, "kubectl"), "PATH="+filepath.Dir(s.Kubectl)+":"+os.Getenv("PATH"))
	return syscall.Exec(path, args, env)
}
