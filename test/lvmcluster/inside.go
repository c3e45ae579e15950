package lvmcluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/csi-local/csi-local/test/testbed"
)

// Cluster is the control plane, seen from the node. Its methods may be called from any
// goroutine.
type Cluster struct {
	// Admin may do everything, without a limit of its own. Its user agent is that of a
	// Go program named after the test binary.
	Admin *kubernetes.Clientset
	// Kubeconfig is a file that lets another program do the same.
	Kubeconfig string
	// Binary is the csi-local executable.
	Binary  string
	service string
}

// Connect is for tests of a package whose TestMain calls [Main].
func Connect(t *testing.T) *Cluster {
	t.Helper()
	c := &Cluster{Kubeconfig: os.Getenv(envKubeconfig), Binary: os.Getenv(envBinary), service: os.Getenv(envService)}
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	if c.Admin, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return c
}

// Audit is that of [testbed.Cluster].
func (c *Cluster) Audit(ctx context.Context) ([]testbed.Request, error) {
	var requests []testbed.Request
	err := c.ask(ctx, pathAudit, &requests)
	return requests, err
}

// StopAPIServer is that of [testbed.Cluster].
func (c *Cluster) StopAPIServer(ctx context.Context) error { return c.ask(ctx, pathStop, new(any)) }

// StartAPIServer is that of [testbed.Cluster].
func (c *Cluster) StartAPIServer(ctx context.Context) error { return c.ask(ctx, pathStart, new(any)) }

func (c *Cluster) ask(ctx context.Context, path string, answer any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.service+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, response.Status, bytes.TrimSpace(text))
	}
	return json.Unmarshal(text, answer)
}
