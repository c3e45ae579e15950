package incident

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/csi-local/csi-local/test/testbed"
)

const repository = "../.."

// schedulerProcess is csi-local-scheduler, built as it ships, with the
// configuration that ships.
type schedulerProcess struct {
	t   *testing.T
	log string
}

func (c *cluster) startScheduler() *schedulerProcess {
	c.t.Helper()
	folder := c.t.TempDir()
	binary, err := testbed.BuildLocalScheduler(c.t.Context(), folder)
	c.must(err)
	text, err := os.ReadFile(filepath.Join(repository, "deploy/scheduler/config.yaml"))
	if err != nil {
		c.t.Fatal(err)
	}
	const at = "\nclientConnection:\n"
	if !strings.Contains(string(text), at) {
		c.t.Fatalf("config.yaml has no %q", at)
	}
	config := filepath.Join(folder, "config.yaml")
	changed := strings.Replace(string(text), at, at+"  kubeconfig: "+c.testbed.KubeconfigPath()+"\n", 1)
	if err := os.WriteFile(config, []byte(changed), 0o600); err != nil {
		c.t.Fatal(err)
	}
	s := &schedulerProcess{t: c.t, log: filepath.Join(c.testbed.LogDir(), "csi-local-scheduler.log")}
	log, err := os.Create(s.log)
	if err != nil {
		c.t.Fatal(err)
	}
	process := exec.CommandContext(c.t.Context(), binary, "--config="+config, "--secure-port=0", "-v=5", "--logging-format=json")
	process.Stdout, process.Stderr = log, log
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := process.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = process.Process.Kill() // it may have ended
		_ = process.Wait()         // killed
		if err := log.Close(); err != nil {
			c.t.Error(err)
		}
	})
	return s
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
func (s *schedulerProcess) checkLog(pod string, volumes int, bytesEach int64) {
	s.t.Helper()
	file, err := os.Open(s.log)
	if err != nil {
		s.t.Fatal(err)
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
			if want := int64(counted) * bytesEach; l.TotalBytes != want {
				s.t.Errorf("%s: the running total after %d volumes is %d, want %d", pod, counted, l.TotalBytes, want)
			}
		case "Pool counted":
			attempts++
			if counted != volumes || l.Volumes != volumes || l.UsedBytes != int64(volumes)*bytesEach || l.LimitBytes != l.UsedBytes ||
				l.Requested != bytesEach || l.Fits || l.Pool != pool {
				s.t.Errorf("%s: %d lines for volumes, then %+v", pod, counted, l)
			}
			counted = 0
		}
	}
	if err := scanner.Err(); err != nil {
		s.t.Fatal(err)
	}
	if attempts == 0 {
		s.t.Errorf("%s: the log does not show the sum", pod)
	}
}
