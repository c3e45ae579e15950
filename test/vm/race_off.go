//go:build !race

package vm

// raceEnabled says that this program has the race detector in it.
const raceEnabled = false
