// Package cluster is a whole Kubernetes cluster for tests: a control plane on this machine
// (test/testbed, with a stock kube-scheduler), and nodes that are throwaway kernels
// (test/vm) with containerd, kubelet and real LVM disks. All of it is in a network of its
// own and vanishes with the process that started it. The images that the shipped manifests
// name are on every node, so the manifests are applied as they are.
//
// A package's TestMain calls [Main], which builds what is needed and enters the network:
//
//	func TestMain(m *testing.M) { cluster.Main(m) }
//
//	func TestOnRealNodes(t *testing.T) {
//		c := cluster.New(t, cluster.Options{Nodes: 2})       // ready, in about a minute
//		c.Must(t, "apply", "-k", c.Manifests("second-scheduler")) // kubectl
//		n := c.Nodes()[0]
//		out := n.MustRun(t, "vgs", "--noheadings")           // inside the kernel
//		n.PowerCut(); n.Start(ctx); n.WaitReady(ctx)         // the disks keep what they had
//		n.CutNetwork(); n.RestoreNetwork()
//		n.Replace(ctx)                                       // the same name, new disks
//	}
//
// Nodes are called node-1, node-2 and so on. [Cluster.Admin] is an administrator's client,
// [Cluster.Kubeconfig] a file for other programs, which have to be started by the test
// process, because nothing else is in the network. Pods use the image [TestImage].
//
// Tests run without the race detector, which a throwaway kernel cannot have. Logs are in
// [Cluster.LogDir] and are kept when a test has failed: of the control plane's programs, and
// of each node NAME-kubelet.log, NAME-containerd.log and NAME-console.log.
package cluster
