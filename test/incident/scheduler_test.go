package incident

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/csi-local/csi-local/test/testbed"
)

// schedulerProcess is csi-local-scheduler, built as it ships, with the
// configuration that ships.
type schedulerProcess struct{ *testbed.Process }

// startScheduler starts it for one test. There is but one at a time, so no leader
// is elected.
func (c *cluster) startScheduler(t *testing.T, program string, verbosity int) schedulerProcess {
	t.Helper()
	text, err := os.ReadFile("../../deploy/scheduler/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	changed := string(text)
	for from, to := range map[string]string{
		"\nclientConnection:\n": "\nclientConnection:\n  kubeconfig: " + c.testbed.KubeconfigPath() + "\n",
		"leaderElect: true":     "leaderElect: false",
	} {
		if strings.Count(changed, from) != 1 {
			t.Fatalf("config.yaml does not have %q once", from)
		}
		changed = strings.Replace(changed, from, to, 1)
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err := errors.Join(err, listener.Close()); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("csi-local-scheduler-v%d", verbosity)
	process, err := c.testbed.StartProcess(name, program, "--config="+config, fmt.Sprintf("-v=%d", verbosity), "--logging-format=json",
		"--bind-address=127.0.0.1", "--secure-port="+port, "--authentication-kubeconfig="+c.testbed.KubeconfigPath(), "--authorization-kubeconfig="+c.testbed.KubeconfigPath())
	if err != nil {
		t.Fatal(err)
	}
	access := rest.AnonymousClientConfig(c.testbed.Admin())
	access.BearerToken, access.TLSClientConfig = c.testbed.Admin().BearerToken, rest.TLSClientConfig{Insecure: true} // its certificate is its own
	client, err := rest.HTTPClientFor(access)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { c.follow(ctx, client, "https://127.0.0.1:"+port+"/metrics") })
	t.Cleanup(func() {
		cancel()
		following.Wait()
		if err := process.Kill(); err != nil {
			t.Error(err)
		}
	})
	return schedulerProcess{process}
}

// line is what the log says of a pool, or of a volume in it.
type line struct {
	Message    string   `json:"msg"`
	Pod        object   `json:"pod"`
	Pool       string   `json:"pool"`
	Classes    []string `json:"classes"`
	Volumes    int      `json:"volumes"`
	UsedBytes  int64    `json:"usedBytes"`
	TotalBytes int64    `json:"totalBytes"`
	LimitBytes int64    `json:"limitBytes"`
	Requested  int64    `json:"requestedBytes"`
	Fits       bool     `json:"fits"`
}

type object struct {
	Name string `json:"name"`
}

// checkLog holds the log to show the whole sum at each attempt for the pod: each
// volume with the running total, the figures, and the refusal.
func (s schedulerProcess) checkLog(t *testing.T, pod, pool string, volumes int) {
	t.Helper()
	file, err := os.Open(s.LogPath())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // only read
	attempts, counted := 0, 0
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<24)
	for scanner.Scan() {
		var l line
		if json.Unmarshal(scanner.Bytes(), &l) != nil || l.Pod.Name != pod {
			continue // another's, or not a line of this form
		}
		switch l.Message {
		case "Volume counted":
			counted++
			if want := int64(counted) * volumeBytes; l.TotalBytes != want {
				t.Errorf("%s: the running total after %d volumes is %d, want %d", pod, counted, l.TotalBytes, want)
			}
		case "Pool counted":
			attempts++
			if counted != volumes || l.Volumes != volumes || l.UsedBytes != int64(volumes)*volumeBytes || l.LimitBytes != l.UsedBytes ||
				l.Requested != volumeBytes || l.Fits || l.Pool != pool {
				t.Errorf("%s: %d lines for volumes, then %+v", pod, counted, l)
			}
			counted = 0
		}
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	if attempts == 0 {
		t.Errorf("%s: the log does not show the sum", pod)
	}
}
