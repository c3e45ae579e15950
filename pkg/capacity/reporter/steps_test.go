//go:build !race

package reporter

// stepsPerRun times rapid's default of 100 runs is at least 100,000.
const stepsPerRun = 1100
