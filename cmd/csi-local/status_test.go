package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/csi-local/csi-local/pkg/doctor"
	"github.com/csi-local/csi-local/pkg/status"
)

// emptyCluster is an API server with nothing in it; it answers with code if that is
// not 0. asked counts requests.
func emptyCluster(t *testing.T, code int) (kubeconfig string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		answer := `{"metadata":{},"items":[]}`
		switch {
		case r.Method != http.MethodGet:
			t.Errorf("%s of %s: it is to read only", r.Method, r.URL)
		case r.URL.Query().Has("watch"):
			t.Errorf("%s is watched", r.URL)
		case r.URL.Path == "/version":
			answer = `{"gitVersion":"v1.37.2"}`
		case code != 0:
			w.WriteHeader(code)
			answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"you may not"}`
		case strings.Contains(r.URL.Path, "/csidrivers/"):
			w.WriteHeader(http.StatusNotFound)
			answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
		}
		_, _ = w.Write([]byte(answer)) // the client sees what is missing
	}))
	t.Cleanup(server.Close)
	return kubeconfigFor(t, server.URL), asked
}

func runIt(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, problems bytes.Buffer
	code = run(t.Context(), args, &out, &problems)
	return code, out.String(), problems.String()
}

func TestStatus_OfAnEmptyCluster(t *testing.T) {
	kubeconfig, asked := emptyCluster(t, 0)
	code, stdout, stderr := runIt(t, "status", "--kubeconfig", kubeconfig)
	if code != exitOK || stderr != "" || !strings.HasPrefix(stdout, "No node publishes a pool of kubernetes.io.csi.local\n") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
	before := asked.Load()
	code, stdout, _ = runIt(t, "status", "--kubeconfig", kubeconfig, "-o", "json")
	var report status.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != exitOK || report.Pools == nil || report.PendingClaims == nil || report.Findings != 1 {
		t.Errorf("exit %d, %v\n%s", code, err, stdout)
	}
	if sent := asked.Load() - before; int64(report.Requests) != sent {
		t.Errorf("%d requests are told, %d were sent", report.Requests, sent)
	}
}

func TestDoctor_ExitStatus(t *testing.T) {
	empty, _ := emptyCluster(t, 0)
	forbids, _ := emptyCluster(t, http.StatusForbidden)
	for name, tt := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"findings":           {[]string{"--kubeconfig=" + empty}, 1, "install-missing", ""},
		"findings as JSON":   {[]string{"--kubeconfig=" + empty, "-o=json"}, 1, `"check": "install-missing"`, ""},
		"forbidden":          {[]string{"--kubeconfig=" + forbids}, 2, "", "nodes: you may not"},
		"no answer":          {[]string{"--kubeconfig=" + kubeconfigFor(t, "http://127.0.0.1:1")}, 2, "", "connection refused"},
		"no such file":       {[]string{"--kubeconfig=/none"}, 2, "", "/none"},
		"no such context":    {[]string{"--kubeconfig=" + empty, "--context=other"}, 2, "", "other"},
		"too many requests":  {[]string{"--kubeconfig=" + empty, "--max-requests=3"}, 2, "", "too many requests: 3 were allowed"},
		"no requests at all": {[]string{"--max-requests=0"}, 2, "", "must be at least 1"},
		"another form":       {[]string{"-o", "yaml"}, 2, "", "must be table or json"},
		"an argument":        {[]string{"all"}, 2, "", "unexpected argument"},
		"an unknown flag":    {[]string{"--colour"}, 2, "", "csi-local doctor -h"},
		"no driver's name":   {[]string{"--driver-name=_"}, 2, "", "--driver-name"},
		"help":               {[]string{"-h"}, 0, "-max-requests", ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := runIt(t, append([]string{"doctor"}, tt.args...)...)
			if code != tt.code || !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) || (tt.stderr == "") != (stderr == "") {
				t.Errorf("exit %d\n%s%s", code, stdout, stderr)
			}
		})
	}
}

// A file of that name is a plugin of kubectl, wherever it lies.
func TestPlugin(t *testing.T) {
	kubeconfig, _ := emptyCluster(t, 0)
	for _, tt := range []struct {
		name   string
		args   []string
		code   int
		stdout string
	}{
		{"/usr/local/bin/kubectl-csi_local", nil, 0, "kubectl csi-local status"},
		{"kubectl-csi_local", []string{"-h"}, 0, "kubectl csi-local doctor"},
		{"kubectl-csi_local", []string{"doctor", "--kubeconfig", kubeconfig}, 1, "install-missing"},
		{"kubectl-csi_local", []string{"version"}, 0, "\n"},
		{"kubectl-csi_local", []string{"node"}, 2, ""},
		{"csi-local", []string{"help"}, 0, "csi-local node"},
	} {
		var stdout, stderr bytes.Buffer
		if code := program(tt.name)(t.Context(), tt.args, &stdout, &stderr); code != tt.code || !strings.Contains(stdout.String(), tt.stdout) {
			t.Errorf("%s %q: exit %d\n%s%s", tt.name, tt.args, code, &stdout, &stderr)
		}
	}
}

// Colours are for terminals, and for people who want them.
func TestInk(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	if ink(false) != doctor.Ink(false) || ink(true) != doctor.Ink(true) {
		t.Error("a terminal makes no difference")
	}
	t.Setenv("TERM", "dumb")
	if ink(true) {
		t.Error("a dumb terminal gets colours")
	}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	if ink(true) {
		t.Error("NO_COLOR makes no difference")
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, terminal := terminalWidth(file); terminal {
		t.Error("a file is a terminal")
	}
}
