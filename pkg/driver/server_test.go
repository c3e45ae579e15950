package driver

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
)

func TestParseEndpoint(t *testing.T) {
	for endpoint, want := range map[string]string{
		"unix:///run/csi.sock":                "/run/csi.sock",
		"unix:/run/csi.sock":                  "/run/csi.sock",
		"/run/csi.sock":                       "",
		"unix://run/csi.sock":                 "",
		"tcp://127.0.0.1:1":                   "",
		"":                                    "",
		"unix:///" + strings.Repeat("a", 107): "",
	} {
		got, err := ParseEndpoint(endpoint)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ParseEndpoint(%q) = %q, %v; want %q", endpoint, got, err, want)
		}
	}
}

func TestListen_OnlyTheOwnerCanConnect(t *testing.T) {
	path := filepath.Join(shortTempDir(t), "s")
	l, err := Listen(t.Context(), "unix://"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode(); got != fs.ModeSocket|0o600 {
		t.Errorf("mode %v, want a socket with 0600", got)
	}
}

func TestListen_ReplacesOnlyAStaleSocket(t *testing.T) {
	dir := shortTempDir(t)
	stale := filepath.Join(dir, "stale")
	l, err := net.Listen("unix", stale)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // as after a kill
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	busy := filepath.Join(dir, "busy")
	other, err := net.Listen("unix", busy)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path, says string
	}{
		{stale, ""},
		{busy, "another process"},
		{file, "no socket"},
		{filepath.Join(dir, "nosuch", "s"), "no such file"},
	} {
		l, err := Listen(t.Context(), "unix://"+tt.path)
		if tt.says == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.path, err)
				continue
			}
			_ = l.Close()
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want an error that says %q", tt.path, err, tt.says)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "precious" {
		t.Errorf("the file at the socket's path: %q, %v", data, err)
	}
}

// A process that is stopped as soon as it has begun leaves no socket on which the next
// one would find somebody serving.
func TestServe_ListensNoMoreOnceItHasReturned(t *testing.T) {
	w := newWorld(t, worldOptions{})
	endpoint := "unix://" + filepath.Join(shortTempDir(t), "csi.sock")
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for range 50 {
		listener, err := Listen(t.Context(), endpoint)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.driver(t, w.client(t)).Serve(stopped, listener); err != nil {
			t.Fatal(err)
		}
	}
}

// SIGTERM while lvcreate runs: what runs ends, what comes is refused, and the
// volume is there.
func TestServe_StopsAfterTheRunningCommand(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	entered, release := make(chan struct{}), make(chan struct{})
	p.lvm.SetHook(func(_ context.Context, c lvmfake.Call) error {
		if c.Op == lvmfake.OpCreate && c.Phase == lvmfake.Before {
			close(entered)
			<-release
		}
		return nil
	})
	created := make(chan error, 1)
	go func() {
		_, err := p.controller.CreateVolume(t.Context(), createReq("v", "thick", 8*mib))
		created <- err
	}()
	receive(t, entered, "lvcreate")
	p.stop()
	receive(t, p.operations.stopping, "refusal")
	_, err := p.controller.CreateVolume(t.Context(), createReq("w", "thick", 8*mib))
	wantCode(t, "CreateVolume while stopping", err, codes.Unavailable)
	_, err = p.identity.Probe(t.Context(), &csi.ProbeRequest{})
	wantCode(t, "Probe while stopping", err, codes.Unavailable)
	select {
	case err := <-p.served:
		t.Fatalf("Serve ended with %v before the command did", err)
	default:
	}
	close(release)
	if err := receive(t, created, "answer"); err != nil {
		t.Errorf("the running call: %v", err)
	}
	if err := receive(t, p.served, "end of Serve"); err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, there := w.look(t)["vg-a"].Volumes["v"]; !there {
		t.Error("the volume is not there")
	}
	if _, err := os.Stat(p.socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}
