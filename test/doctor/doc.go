// Package doctor runs csi-local doctor and status, with the rights that the chart gives
// to people, against a real API server with the shipped manifests. The test plays
// kubelet, the controllers of Kubernetes and users; reporters publish for the nodes.
//
// Each situation is broken on purpose, has to be found, and nothing beside it; then the
// command that doctor prints is run as it stands, and doctor has to be content again.
// [Situations] are run on real nodes, too (test/e2e).
package doctor
