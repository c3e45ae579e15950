// Package reporter tells the cluster what the pools of this node can hold. It
// publishes two things: the allocatable bytes of each pool, in an annotation of
// the Node, and the number of volumes the node can use, in the driver's entry of
// the CSINode. See [capacity.PoolsAnnotation] for the form.
//
// # How it decides
//
// The reporter is level-triggered. A timer, a change in LVM, a failure for want
// of space and an event of the API server do one thing only: they wake it.
// One function then compares what should be published with what is, and writes
// if the two differ. Nothing is queued, so nothing bursts when an API server
// that was gone comes back.
//
// What should be published comes from parts that know nothing of each other:
//
//	trust   how long a pool's last figure counts when LVM does not answer
//	climb   lower figures at once, higher ones later, in steps after a failure
//	gate    whether a newer version owns the annotation
//	pacer   how often one object may be written, back-off, spreading
//
// None of them reads a clock: time is an argument. It comes from the monotonic
// clock (see [Clock]), so setting the node's clock changes nothing.
//
// # What holds
//
// Each write carries the resourceVersion that was read, so no write of others
// is overwritten unseen, and a write that arrives late fails. Each write
// changes the object. No figure is published that LVM did not confirm within
// Settings.Validity.
package reporter
