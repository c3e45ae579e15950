package testbed

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// auditPolicy keeps whole writes of the two objects that the reporter shares with
// others, and of everything else who did what.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: RequestResponse
  verbs: [create, update, patch, delete]
  resources:
  - {group: "", resources: [nodes, nodes/status]}
  - {group: storage.k8s.io, resources: [csinodes]}
- level: Metadata
`

// writeFiles writes what the API server reads when it starts.
func (c *Cluster) writeFiles() error {
	c.token = rand.Text()
	tokens := fmt.Appendf(nil, "%s,admin,admin,system:masters\n", c.token)
	for _, node := range c.options.Kubelets {
		c.tokens[node] = rand.Text()
		tokens = fmt.Appendf(tokens, "%s,system:node:%[2]s,system:node:%[2]s,system:nodes\n", c.tokens[node], node)
	}
	key, err := serviceAccountKey()
	if err != nil {
		return err
	}
	clientCA, err := selfSigned("testbed-client-ca")
	if err != nil {
		return err
	}
	proxyCA, err := selfSigned("testbed-proxy-ca")
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"service-account.key": key,
		clientCAName:          clientCA,
		proxyCAName:           proxyCA,
		"audit-policy.yaml":   []byte(auditPolicy),
		"tokens.csv":          tokens,
	} {
		if err := os.WriteFile(c.path(name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Two certificates that have signed none. Schedulers and others look for the ConfigMap that
// the API server makes of them, as it does in any cluster.
const (
	clientCAName = "client-ca.crt"
	proxyCAName  = "proxy-ca.crt"
)

func selfSigned(name string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func serviceAccountKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func (c *Cluster) etcdFlags(peerPort int) []string {
	client, peer := "http://"+loopback(c.etcdPort), "http://"+loopback(peerPort)
	return []string{
		"--data-dir=" + c.path("etcd"), "--unsafe-no-fsync", "--log-level=warn", "--name=testbed",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=testbed=" + peer,
	}
}

func (c *Cluster) apiServerFlags() []string {
	bind := c.options.Address
	if c.options.ServicePort {
		bind = anyAddress
	}
	flags := []string{
		"--etcd-servers=http://" + loopback(c.etcdPort), "--bind-address=" + bind, "--advertise-address=" + c.options.Address,
		fmt.Sprintf("--secure-port=%d", c.apiPort), "--cert-dir=" + c.path("certificates"), "--token-auth-file=" + c.path("tokens.csv"),
		"--client-ca-file=" + c.path(clientCAName), "--requestheader-client-ca-file=" + c.path(proxyCAName),
		"--requestheader-allowed-names=nobody", "--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--service-account-key-file=" + c.path("service-account.key"), "--service-account-signing-key-file=" + c.path("service-account.key"),
		"--service-account-issuer=https://testbed.invalid", "--service-cluster-ip-range=10.0.0.0/24",
		// Nodes have no names that could be looked up.
		"--kubelet-preferred-address-types=InternalIP",
		"--authorization-mode=Node,RBAC", "--allow-privileged=true", "--enable-admission-plugins=NodeRestriction",
		// Nobody looks for this server by a Service, and a loopback address may not stand in one.
		"--endpoint-reconciler-type=none",
	}
	if !c.options.WithoutAudit {
		flags = append(flags, "--audit-policy-file="+c.path("audit-policy.yaml"), "--audit-log-path="+c.auditLog(), "--audit-log-mode=blocking",
			// In MB: it must not begin a new file.
			"--audit-log-maxsize=100000")
	}
	if !c.options.ControllerManager {
		// It waits for service accounts that only a controller manager makes.
		flags = append(flags, "--disable-admission-plugins=ServiceAccount")
	}
	return flags
}

func (c *Cluster) managerFlags() []string {
	return append([]string{
		"--kubeconfig=" + c.KubeconfigPath(), "--authentication-kubeconfig=" + c.KubeconfigPath(), "--authorization-kubeconfig=" + c.KubeconfigPath(),
		"--bind-address=127.0.0.1", "--secure-port=0", "--cert-dir=" + c.path("certificates"), "--leader-elect=false", "--use-service-account-credentials=false",
		"--service-account-private-key-file=" + c.path("service-account.key"), "--root-ca-file=" + c.caFile(),
	}, c.options.ManagerFlags...)
}

func (c *Cluster) schedulerFlags() []string {
	return []string{
		"--kubeconfig=" + c.KubeconfigPath(), "--authentication-kubeconfig=" + c.KubeconfigPath(), "--authorization-kubeconfig=" + c.KubeconfigPath(),
		// With its lease, as in any cluster: another scheduler may wait for its end.
		"--bind-address=127.0.0.1", "--secure-port=0", "--leader-elect=true",
	}
}

// caFile is the certificate that the API server has made for itself, with what signed it.
func (c *Cluster) caFile() string { return c.path("certificates/apiserver.crt") }

// waitReady returns when the API server says that it is ready.
func (c *Cluster) waitReady(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last := errors.New("not asked yet")
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API server is not ready: %w: %w\n%s", ctx.Err(), last, tail(c.apiServer.log))
		case <-c.apiServer.exited:
			return c.apiServer.Ended()
		case <-c.etcd.exited:
			return c.etcd.Ended()
		case <-tick.C:
		}
		if last = c.ready(ctx); last == nil {
			return nil
		}
	}
}

func (c *Cluster) ready(ctx context.Context) error {
	if _, err := os.Stat(c.caFile()); err != nil {
		return err
	}
	client, err := discovery.NewDiscoveryClientForConfig(c.Admin())
	if err != nil {
		return err
	}
	return client.RESTClient().Get().AbsPath("/readyz").Timeout(5 * time.Second).Do(ctx).Error()
}

// KubeconfigPath is an administrator's kubeconfig, for other programs.
func (c *Cluster) KubeconfigPath() string { return c.path("kubeconfig") }

// KubeletKubeconfig is what the kubelet of a node of Options.Kubelets is started with.
func (c *Cluster) KubeletKubeconfig(node string) string {
	return c.path("kubelet-" + node + ".kubeconfig")
}

func (c *Cluster) writeKubeconfigs() error {
	err := c.writeKubeconfig(c.KubeconfigPath(), c.token)
	for node, token := range c.tokens {
		err = errors.Join(err, c.writeKubeconfig(c.KubeletKubeconfig(node), token))
	}
	return err
}

// writeKubeconfig holds the certificate itself: a node need not see our files.
func (c *Cluster) writeKubeconfig(path, token string) error {
	certificate, err := os.ReadFile(c.caFile())
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["testbed"] = &clientcmdapi.Cluster{Server: c.Address(), CertificateAuthorityData: certificate}
	config.AuthInfos["testbed"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["testbed"] = &clientcmdapi.Context{Cluster: "testbed", AuthInfo: "testbed"}
	config.CurrentContext = "testbed"
	return clientcmd.WriteToFile(*config, path)
}
