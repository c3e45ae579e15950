package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

func TestRun_CommandLines(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	for _, tt := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{"version"}, exitOK, versionString() + "\n", ""},
		{[]string{"--version"}, exitOK, versionString() + "\n", ""},
		{[]string{"help"}, exitOK, "csi-local node [flags]", ""},
		{[]string{"-h"}, exitOK, "csi-local node [flags]", ""},
		{[]string{"node", "-h"}, exitOK, "-pools-file", ""},
		{nil, exitUsage, "", "no command given; the commands are node, controller, orphans, status, doctor, version, help"},
		{[]string{"nod"}, exitUsage, "", `unknown command "nod"`},
		{[]string{"controller", "-h"}, exitOK, "-lost-node-delay", ""},
		{[]string{"controller", "--nosuch"}, exitUsage, "", "csi-local controller -h lists the flags"},
		{[]string{"controller", "stray"}, exitUsage, "", `unexpected argument "stray"`},
		{[]string{"controller", "--max-lost-nodes-percent=0"}, exitUsage, "", "--max-lost-nodes-percent"},
		{[]string{"controller", "--leader-elect=false", "--kubeconfig=/nosuch/kubeconfig"}, exitFailed, "", "/nosuch/kubeconfig"},
		{[]string{"node", "--nosuch"}, exitUsage, "", "csi-local node -h lists the flags"},
		{[]string{"node", "stray"}, exitUsage, "", `unexpected argument "stray"`},
		{[]string{"node", "--max-volumes=x"}, exitUsage, "", "max-volumes"},
		{[]string{"node", "--max-volumes=0"}, exitUsage, "", "--node-name"},
		{[]string{"node", "--node-name=n", "--pools-file=/nosuch/pools.yaml"}, exitFailed, "", "/nosuch/pools.yaml"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), tt.args, &stdout, &stderr)
		if code != tt.code || !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
			t.Errorf("csi-local %v: exit %d\nstdout: %s\nstderr: %s\nwant exit %d, %q, %q", tt.args, code, &stdout, &stderr, tt.code, tt.stdout, tt.stderr)
		}
		if tt.code != exitOK && stdout.Len() > 0 || tt.code == exitOK && stderr.Len() > 0 {
			t.Errorf("csi-local %v writes to the wrong stream\nstdout: %s\nstderr: %s", tt.args, &stdout, &stderr)
		}
	}
}

func TestVersionString_PrefersTheLinker(t *testing.T) {
	old := version
	t.Cleanup(func() { version = old })
	version = "v1.2.3"
	if got := versionString(); got != "v1.2.3" {
		t.Errorf("version %q", got)
	}
	version = ""
	if got := versionString(); got == "" {
		t.Error("no version")
	}
}

const onePool = `pools:
- name: ssd
  volumeGroup: vg-none
  type: thick
`

// The whole process on a machine without LVM: it serves, says why it is not
// ready, reads the pools file again, and stops when it is told to.
func TestNode_LifeWithoutLVM(t *testing.T) {
	dir, err := os.MkdirTemp("", "csi") // short, for the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	pools := filepath.Join(dir, "pools.yaml")
	if err := os.WriteFile(pools, []byte(onePool), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := parse(t, "--pools-file="+pools, "--kubelet-dir="+dir, "--endpoint=unix://"+dir+"/s", "--lvm-run-dir="+dir+"/lvm",
		"--lvm-lock-dir="+dir+"/lock", "--lvm-path="+dir+"/no-lvm", "--metrics-address=127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n, err := newNode(opts, "v0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.run(ctx) }()

	conn, err := grpc.NewClient("unix://"+dir+"/s", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	identity := csi.NewIdentityClient(conn)
	info, err := identity.GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{}, grpc.WaitForReady(true))
	if err != nil || info.GetVendorVersion() != "v0" {
		t.Errorf("GetPluginInfo: %v, %v", info, err)
	}
	if _, err := identity.Probe(t.Context(), &csi.ProbeRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("Probe without LVM: %v, want Unavailable", err)
	}
	two := strings.Replace(onePool, "pools:", "pools:\n- name: hdd\n  volumeGroup: vg-other\n  type: thick", 1)
	if err := os.WriteFile(pools, []byte(two), 0o600); err != nil {
		t.Fatal(err)
	}
	// SIGHUP until it was heard; the watcher may not listen yet.
	for len(n.pools()) != 2 {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		if _, err := identity.GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
	if err := n.close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := os.Stat(dir + "/s"); err == nil {
		t.Error("the socket is still there")
	}
}
