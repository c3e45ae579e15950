// Package e2e holds the end-to-end tests: the shipped manifests, unchanged, on real
// kubelets with real LVM (test/cluster), and what a user does with them.
//
// One cluster of two nodes serves all tests, since it takes a minute to start; the tests
// of [TestEndToEnd] run one after the other, each in a namespace of its own, and leave
// nothing behind: that is looked at after each. The last one uninstalls.
package e2e
