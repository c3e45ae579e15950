package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const controllerOptionsDoc = "../../docs/options-controller.md"

func TestControllerOptions_EachProblemIsNamed(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	for _, tt := range []struct {
		args []string
		says []string // all of them, empty for a good command line
	}{
		{[]string{"--leader-elect-namespace=ns"}, nil},
		{[]string{"--leader-elect=false"}, nil},
		{nil, []string{"--leader-elect-namespace", "POD_NAMESPACE"}},
		{[]string{"--leader-elect=false", "--driver-name=Bad_Name"}, []string{"--driver-name"}},
		{[]string{"--leader-elect=false", "--metrics-address=9808"}, []string{"--metrics-address"}},
		{[]string{"--leader-elect=false", "--csi-endpoint=csi.sock"}, []string{"--csi-endpoint", "unix:///"}},
		{[]string{"--leader-elect=false", "--lost-node-delay=0s"}, []string{"--lost-node-delay"}},
		{[]string{"--leader-elect=false", "--max-lost-nodes-percent=101"}, []string{"--max-lost-nodes-percent", "1 to 100"}},
		{[]string{"--leader-elect=false", "--event-interval=1ms"}, []string{"--event-interval"}},
		{[]string{"--leader-elect-namespace=ns", "--leader-elect-lease-duration=1s"}, []string{"--leader-elect-lease-duration"}},
		{[]string{"--lost-node-delay=-1m", "--event-interval=0s"}, []string{"--lost-node-delay", "--event-interval", "--leader-elect-namespace"}},
	} {
		opts, err := parseControllerFlags(tt.args, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		err = opts.validate()
		if (err == nil) != (tt.says == nil) {
			t.Errorf("%v: %v", tt.args, err)
			continue
		}
		for _, part := range tt.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v: %q does not say %q", tt.args, err, part)
			}
		}
		// What the flags let pass the controller must take.
		if settings := opts.settings.Validate(); err == nil && settings != nil {
			t.Errorf("%v: %v", tt.args, settings)
		}
	}
}

func TestControllerOptions_NamespaceFromEnvironment(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "from-env")
	opts, err := parseControllerFlags(nil, io.Discard)
	if err != nil || opts.election.namespace != "from-env" || opts.validate() != nil {
		t.Errorf("namespace %q, %v", opts.election.namespace, err)
	}
}

func TestControllerDocumentation_NamesEveryFlag(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	own := flag.NewFlagSet("", flag.ContinueOnError)
	(&controllerOptions{}).addFlags(own)
	var b strings.Builder
	b.WriteString("# Options of csi-local controller\n\n" +
		"This file is made from the source: `go test ./cmd/csi-local -run Documentation -update`; a test compares it.\n" +
		"Flags take one dash or two. Those of the logs are the same as of [csi-local node](options.md).\n" +
		"What the controller does is in [controller.md](controller.md).\n\n| flag | default | meaning |\n|---|---|---|\n")
	own.VisitAll(func(f *flag.Flag) {
		value := ""
		if f.DefValue != "" {
			value = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(&b, "| `--%s` | %s | %s |\n", f.Name, value, f.Usage)
	})
	if *update {
		if err := os.WriteFile(controllerOptionsDoc, []byte(b.String()), 0o644); err != nil { //nolint:gosec // documentation is for everybody
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(controllerOptionsDoc)
	if err != nil {
		t.Fatalf("%v; go test ./cmd/csi-local -run Documentation -update makes it", err)
	}
	if diff := cmp.Diff(b.String(), string(got)); diff != "" {
		t.Errorf("%s is not what the flags say; go test ./cmd/csi-local -run Documentation -update mends it (-want +got)\n%s", controllerOptionsDoc, diff)
	}
}

// controllerFor makes the process for an API server that answers nothing.
func controllerFor(t *testing.T, server *httptest.Server, args ...string) *controllerProcess {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	opts, err := parseControllerFlags(append([]string{"--kubeconfig=" + path, "--leader-elect=false"}, args...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newControllerProcess(opts, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func statusOf(c *controllerProcess, path string) int {
	answer := httptest.NewRecorder()
	c.handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	return answer.Code
}

// An API server that is down keeps the leader alive and not ready, and the
// process ends when it is told to.
func TestController_WithoutAPIServer(t *testing.T) {
	asked := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.UserAgent():
		default:
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	endpoint := "unix://" + filepath.Join(t.TempDir(), "csi.sock")
	c := controllerFor(t, server, "--metrics-address=127.0.0.1:0", "--csi-endpoint="+endpoint)
	if code := statusOf(c, "/readyz"); code != http.StatusOK {
		t.Errorf("a process that waits to lead is not ready: %d", code)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.run(ctx) }()
	if agent := <-asked; agent != "csi-local-controller/v1.2.3" {
		t.Errorf("user agent %q", agent)
	}
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/metrics": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
		if code := statusOf(c, path); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	info, err := csi.NewIdentityClient(conn).GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{})
	if err != nil || info.GetName() != "kubernetes.io.csi.local" || info.GetVendorVersion() != "v1.2.3" {
		t.Errorf("csi-resizer is answered %v, %v", info, err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it does not end")
	}
}

func TestController_MetricsAddressInUse(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	c := controllerFor(t, server, "--metrics-address="+strings.TrimPrefix(server.URL, "http://"))
	if err := c.run(t.Context()); err == nil || !strings.Contains(err.Error(), "--metrics-address") {
		t.Errorf("error %v", err)
	}
}
