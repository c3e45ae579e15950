// Package plainexec runs the contract suite on lvm.Client with one process for each
// command, the reference for its long-lived shell.
package plainexec
