//go:build race

package reporter

// stepsPerRun is small with the race detector: the property's world has one
// goroutine, so there is nothing for it to find.
const stepsPerRun = 50
