package controller

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/test/nodeproc"
	"github.com/csi-local/csi-local/test/testbed"
)

const (
	driver             = capacity.DefaultDriverName
	otherDriver        = "other.example"
	namespace, account = "kube-system", "csi-local-controller"

	// delay is what the controller waits for; patience what the tests do.
	delay    = 2 * time.Second
	patience = 60 * time.Second
)

// bed is a cluster without kubelets.
type bed struct {
	t          *testing.T
	cluster    *testbed.Cluster
	admin      *kubernetes.Clientset
	binary     string
	kubeconfig string
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	built := make(chan error, 1) // while the cluster starts
	go func() {
		var err error
		b.binary, err = nodeproc.Build(t.Context(), "controller")
		built <- err
	}()
	b.cluster = testbed.New(t, testbed.Options{ControllerManager: true})
	b.admin = b.client(b.cluster.Admin())
	b.kubectl("apply", "-f", "../../deploy/policy/controller-rbac.yaml", "-f", "../../deploy/policy/controller-fence.yaml")
	if err := <-built; err != nil {
		t.Fatal(err)
	}
	b.writeKubeconfig(b.serviceAccount())
	return b
}

func (b *bed) client(config *rest.Config) *kubernetes.Clientset {
	b.t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.t.Fatal(err)
	}
	return client
}

func (b *bed) kubectl(args ...string) {
	b.t.Helper()
	kubectl, err := testbed.Kubectl.Path(b.t.Context(), os.Stderr)
	if err != nil {
		b.t.Fatal(err)
	}
	args = append([]string{"--kubeconfig", b.cluster.KubeconfigPath(), "--cache-dir", b.t.TempDir()}, args...)
	output, err := exec.CommandContext(b.t.Context(), kubectl, args...).CombinedOutput()
	if err != nil || strings.Contains(string(output), "Warning") {
		b.t.Fatalf("kubectl %q: %v\n%s", args, err, output)
	}
}

// serviceAccount is what the controller's pod has.
func (b *bed) serviceAccount() *rest.Config {
	b.t.Helper()
	config, err := b.cluster.ServiceAccount(b.t.Context(), namespace, account, "")
	if err != nil {
		b.t.Fatal(err)
	}
	return config
}

func (b *bed) writeKubeconfig(from *rest.Config) {
	b.t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: from.Host, CertificateAuthority: from.CAFile}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: from.BearerToken}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*config, b.kubeconfig); err != nil {
		b.t.Fatal(err)
	}
}

// process is a running csi-local controller.
type process struct {
	b       *bed
	cmd     *exec.Cmd
	address string
	log     *bytes.Buffer
	exited  chan struct{}
}

// start runs a controller until it is stopped, or the test ends.
func (b *bed) start(flags ...string) *process {
	b.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it answers at once
	if err != nil {
		b.t.Fatal(err)
	}
	p := &process{b: b, address: listener.Addr().String(), log: &bytes.Buffer{}, exited: make(chan struct{})}
	if err := listener.Close(); err != nil {
		b.t.Fatal(err)
	}
	args := append([]string{
		"controller", "--kubeconfig=" + b.kubeconfig, "--metrics-address=" + p.address, "--leader-elect-namespace=" + namespace,
		"--leader-elect-lease-duration=3s", "--lost-node-delay=" + delay.String(), "-v=4",
	}, flags...)
	p.cmd = exec.CommandContext(context.WithoutCancel(b.t.Context()), b.binary, args...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // the state tells how it has ended
	}()
	b.t.Cleanup(func() {
		p.stop(syscall.SIGKILL)
		if b.t.Failed() {
			b.t.Logf("controller %v:\n%s", args, p.log)
		}
	})
	b.eventually("the controller answers", func() string {
		_, err := p.get("/healthz")
		return complain(err)
	})
	return p
}

// stop sends the signal and returns when the process has ended.
func (p *process) stop(signal syscall.Signal) {
	_ = p.cmd.Process.Signal(signal) // it may have ended
	<-p.exited
}

// get returns what is at a path of the controller's endpoint.
func (p *process) get(path string) (string, error) {
	request, err := http.NewRequestWithContext(p.b.t.Context(), http.MethodGet, "http://"+p.address+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return string(body), err
}

// metric waits until the line is among the metrics.
func (p *process) metric(line string) {
	p.b.t.Helper()
	p.b.eventually("metric "+line, func() string {
		body, err := p.get("/metrics")
		if err == nil && !strings.Contains(body, "\n"+line+"\n") {
			err = fmt.Errorf("it is not there")
		}
		return complain(err)
	})
}

func complain(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// eventually waits until check returns nothing to complain of.
func (b *bed) eventually(what string, check func() string) {
	b.t.Helper()
	testbed.Eventually(b.t, patience, what, check)
}

// pass lets real time go by in which nothing should happen.
func (b *bed) pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.t.Context().Done():
	}
}

// event waits for an event about the object whose message has all the parts.
func (b *bed) event(in, name, reason string, parts ...string) {
	b.t.Helper()
	b.eventually("event "+reason+" about "+name, func() string {
		events, err := b.admin.CoreV1().Events(in).List(b.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return err.Error()
		}
		var seen []string
		for _, e := range events.Items {
			seen = append(seen, e.Reason+": "+e.Message)
			if e.Reason == reason && e.Source.Component == "csi-local-controller" && containsAll(e.Message, parts) {
				return ""
			}
		}
		return fmt.Sprintf("there are %q", seen)
	})
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// addNode makes a Node of the driver as kubelet and reporter do.
func (b *bed) addNode(name string) {
	b.t.Helper()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{v1.LabelHostname: name, capacity.TopologyKey(driver): name},
		Annotations: map[string]string{capacity.PoolsAnnotation(driver): `{"pool-ssd":"107374182400"}`},
	}}
	if _, err := b.admin.CoreV1().Nodes().Create(b.t.Context(), node, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// removeNode deletes the object, and nothing else of the node.
func (b *bed) removeNode(name string) {
	b.t.Helper()
	if err := b.admin.CoreV1().Nodes().Delete(b.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// breakNode says of a node everything bad that there is to say, but that its pods
// may be taken away.
func (b *bed) breakNode(name string) {
	b.t.Helper()
	status := `{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown"}]}}`
	if _, err := b.admin.CoreV1().Nodes().Patch(b.t.Context(), name, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		b.t.Fatal(err)
	}
	spec := `{"spec":{"unschedulable":true,"taints":[{"key":"node.kubernetes.io/unreachable","effect":"NoExecute"}]}}`
	if _, err := b.admin.CoreV1().Nodes().Patch(b.t.Context(), name, types.StrategicMergePatchType, []byte(spec), metav1.PatchOptions{}); err != nil {
		b.t.Fatal(err)
	}
}
