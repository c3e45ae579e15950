package vm

import (
	"bufio"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAddressProblem(t *testing.T) {
	t.Setenv(envNetwork, "1")
	for address, ok := range map[string]bool{
		"10.80.0.2": true, "10.80.0.254": true,
		HostAddress: false, "10.80.0.0": false, "10.80.0.255": false, "10.80.1.2": false, "::1": false, "::ffff:10.80.0.2": false,
	} {
		if problem := addressProblem(netip.MustParseAddr(address)); (problem == "") != ok {
			t.Errorf("%s: %q", address, problem)
		}
	}
	t.Setenv(envNetwork, "")
	if problem := addressProblem(netip.MustParseAddr("10.80.0.2")); !strings.Contains(problem, "EnterNetwork") {
		t.Errorf("outside of a network: %q", problem)
	}
}

func TestMachine_WithoutCable(t *testing.T) {
	m := &Machine{backend: UML}
	if err := m.Disconnect(); err != ErrNoCable {
		t.Errorf("error %v", err)
	}
	m = &Machine{backend: Host, opts: Options{Address: netip.MustParseAddr("10.80.0.2")}}
	if err := m.Reconnect(); err != ErrNoCable {
		t.Errorf("error %v", err)
	}
}

// networkProgram builds testdata/network.
func networkProgram(t *testing.T) string {
	t.Helper()
	needUML(t)
	path := filepath.Join(t.TempDir(), "network")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./testdata/network")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return path
}

func TestNetwork_ReachesTheOutsideUnlessCutOff(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	output, err := exec.CommandContext(t.Context(), networkProgram(t)).CombinedOutput()
	own, readErr := os.Readlink("/proc/self/ns/net")
	if err != nil || readErr != nil {
		t.Fatalf("%v, %v\n%s", err, readErr, output)
	}
	namespace, rest, _ := strings.Cut(string(output), " ")
	if !strings.HasPrefix(namespace, "net:[") || namespace == own {
		t.Errorf("the program was in %q, we are in %q", namespace, own)
	}
	if want := "10.80.0.7\ncut off true again 10.80.0.7\n"; rest != want {
		t.Errorf("it said %q, want %q", rest, want)
	}
	checkNamespaceGone(t, namespace)
}

// Without a kernel of its own the command is in the program's network, and finds the same
// address there. A throwaway kernel stands for a host that has device mapper.
func TestNetwork_OnTheHostBackend(t *testing.T) {
	program := networkProgram(t)
	r := runUML(t, Options{Command: []string{"env", "-u", EnvBackend, program, "host"}})
	_, rest, _ := strings.Cut(r.stdout, " ")
	if want := HostAddress + "\nno cable true\n"; r.err != nil || r.status != 0 || rest != want {
		t.Errorf("%+v, want %q", r, want)
	}
}

func TestNetwork_VanishesWithAKilledProgram(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	cmd := exec.CommandContext(t.Context(), networkProgram(t), "wait")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	namespace, _, _ := strings.Cut(line, " ")
	checkNamespaceGone(t, namespace)
}

// checkNamespaceGone waits until no process is in the namespace: then it does not exist.
func checkNamespaceGone(t *testing.T, namespace string) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		left := processesIn(t, namespace)
		if len(left) == 0 {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("in the network are still %q", left)
		case <-tick.C:
		}
	}
}

func processesIn(t *testing.T, namespace string) (found []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == namespace {
			found = append(found, link)
		}
	}
	return found
}
