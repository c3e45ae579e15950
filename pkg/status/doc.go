// Package status says what a cluster's pools hold and which claims wait, from a
// snapshot (pkg/inspect) and what is wrong with it (pkg/doctor): as a [Report] for
// programs, and as tables for eyes.
package status
