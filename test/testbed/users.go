package testbed

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Admin may do everything. Like all configurations of a cluster, it has no
// limit on requests of its own.
func (c *Cluster) Admin() *rest.Config { return c.withToken(c.token) }

// Config is that of a user who is in these groups beside system:authenticated.
// The audit log shows the user's name.
func (c *Cluster) Config(user string, groups ...string) *rest.Config {
	config := c.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return config
}

// Kubelet is what the kubelet of a node is to the API server.
func (c *Cluster) Kubelet(node string) *rest.Config {
	return c.Config("system:node:"+node, "system:nodes")
}

// ServiceAccount is what a pod of the service account on the node has: a real
// token, bound to the Node, which must exist. An empty node stands for a token
// that is bound to none.
func (c *Cluster) ServiceAccount(ctx context.Context, namespace, name, node string) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		return nil, err
	}
	request := &authenticationv1.TokenRequest{}
	if node != "" {
		object, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Node", Name: object.Name, UID: object.UID,
		}
	}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token of %s/%s for node %q: %w", namespace, name, node, err)
	}
	return c.withToken(answer.Status.Token), nil
}

func (c *Cluster) withToken(token string) *rest.Config {
	return &rest.Config{
		Host: c.Address(), BearerToken: token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.caFile()},
	}
}
