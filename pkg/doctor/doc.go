// Package doctor looks for what is wrong with csi-local in a cluster, in a snapshot
// of it (pkg/inspect), and says of each finding what helps.
//
// A check is a pure function from the snapshot to what it finds; [Checks] is the
// table of all, and there is one file for each subject. A check says nothing about
// what another one says already, so that one thing that is broken is one finding.
package doctor
