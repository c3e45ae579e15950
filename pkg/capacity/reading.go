package capacity

import "time"

// PoolReading is what a node knows of one of its pools.
type PoolReading struct {
	Pool string
	// AllocatableBytes is the figure to publish; it means nothing if Err is set.
	AllocatableBytes int64
	// ExtentSizeBytes is the pool's allocation unit; 0 if it is not known.
	ExtentSizeBytes int64
	// Filesystem is what volumes get whose class names none.
	Filesystem Filesystem
	// Age is how long ago LVM said so, by a clock that nobody sets.
	Age time.Duration
	// AtWatermark tells that a thin pool takes no more volumes because its data
	// or its metadata is too full.
	AtWatermark bool
	// Err says why nothing is known of the pool now.
	Err error
}
